"""One sample too many: one rank has a batch more than the others. Meant to fail, after a silence.

Run:  torchrun --standalone --nproc-per-node=2 uneven.py
"""

import argparse
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import here, keep_group, report, start


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=10, help="samples in a batch of one rank")
    parser.add_argument("--samples", type=int, default=101, help="of all ranks together")
    parser.add_argument("--limit", type=float, default=6, help="seconds to wait in a collective")
    args = parser.parse_args()
    # gloo on the CPU everywhere: so the message reads the same with and without GPUs.
    place = here(gpus=0)
    start(place)
    # All ranks have come. From here on, little patience.
    patience = timedelta(seconds=args.limit)
    group = dist.new_group(timeout=patience)
    keep_group(group)  # as start() keeps the default one

    # Every rank takes its share, and cuts it into batches.
    torch.manual_seed(0)
    x = torch.randn(args.samples, 4)
    share = x[place.rank :: place.world_size]
    batches = share.split(args.batch_size)
    print(f"rank {place.rank}: {len(share)} samples, {len(batches)} batches\n", end="")

    model = torch.nn.Linear(4, 1)
    ddp_model = DistributedDataParallel(model, process_group=group)
    for batch in batches:
        output = ddp_model(batch)
        loss = output.square().mean()
        loss.backward()  # `step` is left out: the ranks meet here, and only here
    print(f"rank {place.rank}: all my batches are done\n", end="")

    # It goes on with work of its own, as a program does that writes a checkpoint.
    if place.rank > 0:
        time.sleep(3 * args.limit)
    report("uneven", place, batches=len(batches))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
