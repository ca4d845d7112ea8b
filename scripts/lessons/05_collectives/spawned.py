"""Ranks that add their numbers, started by torch.multiprocessing.

Run:  python spawned.py
"""

import os
import socket
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report

WORLD_SIZE = 2


def free_port() -> int:
    """A port that nobody used a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_as(rank: int, port: int) -> None:
    """What torchrun does for each rank: tell it who it is and where the others meet."""
    os.environ["RANK"] = str(rank)
    os.environ["LOCAL_RANK"] = str(rank)
    os.environ["WORLD_SIZE"] = str(WORLD_SIZE)
    os.environ["LOCAL_WORLD_SIZE"] = str(WORLD_SIZE)
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    main()


@record
def main() -> None:
    place = here()
    limit = timedelta(seconds=60)
    dist.init_process_group(place.backend, timeout=limit, device_id=place.bound)

    # Each rank brings its number plus one; afterwards every rank holds the sum.
    total = torch.tensor([place.rank + 1], device=place.device)
    dist.all_reduce(total)

    print(f"rank {place.rank} of {place.world_size}: the sum is {total.item()}\n", end="")
    report("spawned", place, total=total.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(run_as, args=(free_port(),), nprocs=WORLD_SIZE)
