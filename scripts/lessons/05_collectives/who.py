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

TOLD = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS"]


@record
def main() -> None:
    place = here()
    # No address, no rank: `env://`, the default, reads them from the environment.
    dist.init_process_group(place.backend, init_method="env://", timeout=timedelta(seconds=60))

    told = {name: os.environ.get(name, "not set") for name in TOLD}
    agreed = {"rank": dist.get_rank(), "world_size": dist.get_world_size(), "backend": dist.get_backend()}
    built = {"gloo": dist.is_gloo_available(), "nccl": dist.is_nccl_available(), "mpi": dist.is_mpi_available()}
    policy = {gpus: choose(gpus, local_world_size=2, local_rank=1) for gpus in (0, 1, 2)}

    lines = [f"rank {place.rank} computes on {place.device}", " ".join(f"{name}={told[name]}" for name in TOLD[:4])]
    lines += [" ".join(f"{name}={told[name]}" for name in TOLD[4:]), f"arguments: {sys.argv[1:]}"]
    print("\n    ".join(lines) + "\n", end="")  # one write, so that the ranks do not mix
    report("who", place, told=told, agreed=agreed, built=built, policy=policy, arguments=sys.argv[1:])
    dist.all_reduce(torch.zeros(1, device=place.device))  # a rank that left now could cut off one that still connects
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
