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

NAMES = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"]
MACHINES = [(0, 2), (1, 2), (2, 2), (2, 3)]  # GPUs, ranks


@record
def main() -> None:
    place = here()
    # No address, no rank: `env://`, the default, reads them from the environment.
    limit = timedelta(seconds=60)
    dist.init_process_group(
        place.backend, init_method="env://", timeout=limit, device_id=place.bound
    )

    # What torchrun told this rank; one write, so that the ranks do not mix.
    told = {name: os.environ[name] for name in NAMES}
    variables = [f"{name}={value}" for name, value in told.items()]
    text = " ".join(variables)
    print(f"rank {place.rank} of {dist.get_world_size()}, {place.device}: {text}\n", end="")

    # What the last rank would get on other machines, and what could carry messages on this one.
    policy = []
    for gpus, ranks in MACHINES:
        device, backend = choose(gpus, ranks, local_rank=ranks - 1)
        policy.append([gpus, ranks, device, backend])
    built = {
        "gloo": dist.is_gloo_available(),
        "nccl": dist.is_nccl_available(),
        "mpi": dist.is_mpi_available(),
    }
    report("who", place, told=told, policy=policy, built=built, arguments=sys.argv[1:])

    # A rank that left now could cut off one that still connects: so all meet once more.
    dist.all_reduce(torch.zeros(1, device=place.device))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
