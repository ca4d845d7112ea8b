"""Ranks that talk at the same time, each line in three pieces and then in one.

Run:  python chatter.py                                          # one process
      torchrun --standalone --nproc-per-node=3 --log-dir logs --tee 0:3 chatter.py
"""

import time

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start

PIECES = ["{} of rank {}: ", "all is ", "well\n"]


@record
def main() -> None:
    # gloo on the CPU everywhere: this is about lines of text.
    place = here(gpus=0)
    start(place)

    for line in ("first line", "second line"):
        dist.barrier()  # so that all begin at once
        for piece in PIECES:
            print(piece.format(line, place.rank), end="", flush=True)
            time.sleep(0.25)
    dist.barrier()
    print("".join(PIECES).format("last line", place.rank), end="", flush=True)
    report("chatter", place)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
