"""A rank that `srun` starts without torchrun: lesson 14's function says who it is.

Run:  srun --nodes=2 --ntasks=3 python by_slurm.py     # beside mapping.py, with MASTER_ADDR set
"""

import os

import torch
import torch.distributed as dist
from mapping import from_slurm
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start


@record
def main() -> None:
    os.environ.update(from_slurm(dict(os.environ)))
    os.environ["LOCAL_WORLD_SIZE"] = "1"  # asked only where there are GPUs
    place = here()
    start(place)
    total = torch.tensor([float(1 + place.rank)])
    dist.all_reduce(total)
    node = os.environ["SLURMD_NODENAME"]
    found = {"node": node, "local_rank": place.local_rank, "total": total.item()}
    report("by_slurm", place, **found)
    dist.barrier()  # rank 0 holds the store, and leaves last
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
