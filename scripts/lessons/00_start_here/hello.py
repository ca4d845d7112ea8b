"""The first program: it says its rank.

Run:  python hello.py
      torchrun --standalone --nproc-per-node=2 hello.py
      torchrun --standalone --nproc-per-node=2 hello.py --stumble 1     # rank 1 fails on purpose
"""

import argparse
import os

from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stumble", type=int, help="number of the rank that fails")
    args = parser.parse_args()
    place = here()

    # A line and its end are written in one piece. In two, they may mix with what others print.
    print(f"rank {place.rank}\n", end="")
    if place.rank == args.stumble:
        raise RuntimeError(f"rank {place.rank} stumbles, on purpose")
    report("hello", place, process=os.getpid(), parent=os.getppid())


if __name__ == "__main__":
    main()
