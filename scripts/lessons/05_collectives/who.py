"""What torchrun tells each rank, and which backends this build of PyTorch has.

Run:  python who.py                                              # one process
      torchrun --standalone --nproc-per-node=2 who.py            # two ranks
"""

import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import choose, here, report

IDENTITY = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"]
MEETING = ["MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS"]


def environment(names: list[str]) -> dict[str, str]:
    """The environment variables of these names; "not set" for one that is missing."""
    return {name: os.environ.get(name, "not set") for name in names}


def as_text(variables: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in variables.items())


@record
def main() -> None:
    place = here()
    # No address, no rank: `env://`, the default, reads them from the environment.
    timeout = timedelta(seconds=60)
    dist.init_process_group(
        place.backend, init_method="env://", timeout=timeout, device_id=place.bound
    )

    # What torchrun told this rank, and what the process group made of it.
    identity = environment(IDENTITY)
    meeting = environment(MEETING)
    arguments = sys.argv[1:]
    agreed = {
        "rank": dist.get_rank(),
        "world_size": dist.get_world_size(),
        "backend": dist.get_backend(),
    }

    # What could carry messages here, and what the course chooses for two ranks on 0, 1 or 2 GPUs.
    built = {
        "gloo": dist.is_gloo_available(),
        "nccl": dist.is_nccl_available(),
        "mpi": dist.is_mpi_available(),
    }
    policy = {gpus: choose(gpus, local_world_size=2, local_rank=1) for gpus in (0, 1, 2)}

    lines = [
        f"rank {place.rank} computes on {place.device}",
        as_text(identity),
        as_text(meeting),
        f"arguments: {arguments}",
    ]
    print("\n    ".join(lines) + "\n", end="")  # one write, so that the ranks do not mix
    told = identity | meeting
    report("who", place, told=told, agreed=agreed, built=built, policy=policy, arguments=arguments)

    # A rank that left now could cut off one that still connects: so all meet once more.
    dist.all_reduce(torch.zeros(1, device=place.device))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
