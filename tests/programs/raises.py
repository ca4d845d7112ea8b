"""Rank 1 raises while the others wait for it in a collective.

Run:  torchrun --standalone --nproc-per-node=2 raises.py
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record


@record
def main() -> None:
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    if dist.get_rank() == 1:
        raise ArithmeticError("rank 1 has lost count")
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
