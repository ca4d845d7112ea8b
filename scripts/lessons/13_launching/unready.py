"""A start that fails: rank 1 does not find its data. Which ranks still close their files?

Run:  python unready.py                                                # one process: no failure
      torchrun --standalone --nproc-per-node=2 unready.py              # rank 1 ends at once
      torchrun --standalone --nproc-per-node=2 unready.py --together   # it tells the others first
"""

import argparse
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start


def leave() -> None:
    """The end of the process group, if there is one."""
    if dist.is_initialized():  # without a group, both calls raise errors of their own
        dist.barrier()  # no rank ends before all have closed their files
        dist.destroy_process_group()


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--together", action="store_true", help="tell the others, then end")
    args = parser.parse_args()
    place = here(gpus=0)  # gloo on the CPU everywhere: this is about how ranks end
    problem = None
    with Path(f"unready-{place.rank}.txt").open("w") as notes:  # closes the file at its end
        notes.write(f"rank {place.rank} has begun\n")
        try:
            if place.rank == 1:  # where a training would read its data
                raise FileNotFoundError("data of rank 1")
        except FileNotFoundError as error:
            problem = error
        if problem is None or args.together:
            start(place)  # comes back when all ranks have called it
            failed = torch.tensor([int(problem is not None)])
            dist.all_reduce(failed)  # now every rank knows how many have failed
            report("unready", place, failed=failed.item())  # with 0 the training would begin
    leave()
    if problem:
        raise problem


if __name__ == "__main__":
    main()
