"""A rank that is lost, and ranks that disagree: what does our backend say, and what is left behind?

Run:  python lost.py
      torchrun --standalone --nproc-per-node=2 lost.py --limit 2
"""

import time
from argparse import ArgumentParser
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start
from ownbackends import on_cpu, register

NAME = "memfd:nearby"  # as the kernel lists our memory among the maps of a process
SHARED = "/dev/shm/"  # where shared memory with a name is


def add(numbers: torch.Tensor, group: dist.ProcessGroup) -> str:
    """What an all-reduce says when it fails; "" if it does not."""
    try:
        dist.all_reduce(numbers, group=group)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return ""


def maps(name: str) -> list[str]:
    """The memory of this process that the kernel lists under such a name."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in lines if name in line]


@record
def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=3, help="seconds to wait for a rank")
    args = parser.parse_args()
    place = on_cpu(here(), register("nearby"))
    start(place)
    limit = timedelta(seconds=args.limit)
    disagreeing = dist.new_group(backend=place.backend, timeout=limit)
    group = dist.new_group(backend=place.backend, timeout=limit)
    dist.barrier(group)

    # Rank 1 has one number more. On gloo this may end the process from within C++ (lesson 12).
    unequal = ""
    if place.backend == "nearby":
        unequal = add(torch.ones(2 + place.rank), disagreeing)

    first = add(torch.ones(1000), group)
    if place.rank == 1:
        report("lost", place, unequal=unequal)
        return  # gone, without a word to anybody: torchrun sees a rank that is done
    began = time.perf_counter()
    error = add(torch.ones(1000), group)
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    later = add(torch.ones(1000), group)
    again = time.perf_counter() - began
    print(f"{place.backend}, after {seconds:.2f} s: {error or 'nobody was lost'}")
    files = []
    for line in maps(SHARED):
        if not line.endswith("(deleted)"):
            files.append(line.split()[-1])
    report(
        "lost",
        place,
        unequal=unequal,
        errors=[first, error, later],
        seconds=[seconds, again],
        maps=[line.split()[-2:] for line in maps(NAME)],
        files=files,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
