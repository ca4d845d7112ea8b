"""A collective that only rank 0 calls. Meant to fail, after some seconds of silence.

Run:  torchrun --standalone --nproc-per-node=2 lonely.py
"""

import argparse
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=5, help="seconds that a rank waits")
    args = parser.parse_args()
    # gloo on the CPU everywhere: so the message reads the same with and without GPUs.
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    # All have come: from here on, little patience.
    group = dist.new_group(timeout=timedelta(seconds=args.limit))

    total = torch.ones(1)
    if place.rank == 0:
        dist.all_reduce(torch.tensor([100.0]), group=group)  # rank 0 alone: the mistake
    dist.all_reduce(total, group=group)  # both ranks
    ones = " + ".join(["1"] * place.world_size)
    print(f"rank {place.rank}: {ones} = {total.item():.0f}\n", end="")

    if place.rank > 0:
        time.sleep(3 * args.limit)  # goes on with work of its own, as a training loop does
    report("lonely", place, total=total.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
