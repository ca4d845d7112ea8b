"""A program in which rank 1 fails, on purpose.

Run:  python stumble.py            # one process has no rank 1: all is well
      torchrun --standalone --nproc-per-node=2 stumble.py
"""

from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


@record
def main() -> None:
    place = here()
    if place.rank == 1:
        raise RuntimeError("rank 1 stumbles, on purpose")
    report("stumble", place)


if __name__ == "__main__":
    main()
