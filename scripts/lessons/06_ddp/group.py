"""Exercise: the first and the last lines of a script for several ranks, each with its own GPU.

Run:  torchrun --standalone --nproc-per-node=2 group.py
"""

import os

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from scaffold import has_left, imagined


def begin() -> str:
    """This rank's device. Afterwards the ranks form a process group."""
    device = "cpu"
    backend = "gloo"
    if torch.cuda.device_count() >= 2:  # a GPU for each of our two ranks
        device = "cuda"  # the current GPU
        backend = "nccl"
        # BEGIN SOLUTION
        local_rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(local_rank)
        # STUB # nobody has changed the current GPU: it is GPU 0, on every rank
        # END SOLUTION
    # BEGIN SOLUTION
    dist.init_process_group(backend)
    # STUB # every rank is alone, and knows of no other
    # END SOLUTION
    if dist.is_initialized():
        # Or a rank with nothing to send could leave while another is still connecting.
        dist.all_reduce(torch.ones(1, device=device))
    return device


def end() -> None:
    """Part from the other ranks."""
    # BEGIN SOLUTION
    dist.destroy_process_group()
    # STUB pass
    # END SOLUTION


@record
def main() -> None:
    from devices import here, report  # only here: your own script has no such helper

    elsewhere = imagined(begin)
    device = begin()

    # Each rank gives a 1: together they count the members of the group.
    members = torch.ones(1, device=device)
    if dist.is_initialized():
        dist.all_reduce(members)
    members = int(members.item())
    end()

    place = here()
    print(f"rank {place.rank}: {device}, {members} in the group; elsewhere {elsewhere}\n", end="")
    report("group", place, members=members, elsewhere=elsewhere, ended=has_left())


if __name__ == "__main__":
    main()
