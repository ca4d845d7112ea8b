"""Ranks that add their numbers, started by torchrun.

Run:  torchrun --standalone --nproc-per-node=2 torchrunned.py
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


@record
def main() -> None:
    place = here()
    limit = timedelta(seconds=60)
    dist.init_process_group(place.backend, timeout=limit, device_id=place.bound)

    # Each rank brings its number plus one; afterwards every rank holds the sum.
    total = torch.tensor([place.rank + 1], device=place.device)
    dist.all_reduce(total)

    print(f"rank {place.rank} of {place.world_size}: the sum is {total.item()}\n", end="")
    report("torchrunned", place, total=total.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
