"""Every rank says what its launcher told it, and adds its number to everybody's.

Run:  python badge.py                                            # one process
      torchrun --standalone --nproc-per-node=2 badge.py          # two ranks
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start

NAMES = [
    "RANK",
    "LOCAL_RANK",
    "GROUP_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
]


@record
def main() -> None:
    # Asked first: where nobody has set them, `here` sets what a single rank needs.
    told = {name: os.environ.get(name, "") for name in NAMES}
    parent = os.getppid()
    # gloo on the CPU everywhere: two agents on one machine would hand out the same GPUs twice.
    place = here(gpus=0)
    start(place)

    # Each rank brings its number plus one; afterwards every rank holds the sum.
    total = torch.tensor([place.rank + 1])
    dist.all_reduce(total)

    # One write, so that the ranks do not mix.
    node = told["GROUP_RANK"] or "?"
    who = f"rank {place.rank} of {place.world_size}, local rank {place.local_rank} of node {node}"
    print(f"{who}: the sum is {total.item()}\n", end="")
    report("badge", place, told=told, arguments=sys.argv[1:], parent=parent, total=total.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
