"""Early stopping: each rank decides for itself, or rank 0 decides and sends its decision.

With --alone it is meant to fail, after seconds of silence.

Run:  torchrun --standalone --nproc-per-node=2 stop.py
"""

import argparse
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start

# Each rank has tested on pictures of its own, after each epoch.
LOSSES = ([4.0, 3.0, 2.0, 2.1, 2.2, 2.3], [4.0, 3.5, 3.0, 2.5, 2.6, 2.7])


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--alone", action="store_true", help="each rank looks at its own loss")
    parser.add_argument("--limit", type=float, default=5, help="seconds to wait in a collective")
    args = parser.parse_args()
    # gloo on the CPU everywhere: so the messages read the same with and without GPUs.
    place = here(gpus=0)
    start(place)
    group = dist.new_group(timeout=timedelta(seconds=args.limit))

    best = float("inf")
    epochs = 0
    for own in LOSSES[place.rank % 2]:
        epochs += 1
        dist.all_reduce(torch.ones(1), group=group)  # stands for the epoch's training
        loss = torch.tensor(own)
        if args.alone:
            stop = torch.tensor(own > best)
        else:
            dist.all_reduce(loss, group=group)
            loss /= place.world_size
            # Decide once, then send the decision.
            stop = torch.tensor(place.rank == 0 and loss.item() > best)
            dist.broadcast(stop, src=0, group=group)
        best = min(best, loss.item())
        if stop:
            break
    dist.barrier(group)  # all meet before the model is saved
    report("stop", place, epochs=epochs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
