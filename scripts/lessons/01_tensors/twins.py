"""Two ranks, one name: rank 0 writes into its tensor `x`. What does rank 1 find in `x`?

Run:  python twins.py
      torchrun --standalone --nproc-per-node=2 twins.py
"""

import os

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start


@record
def main() -> None:
    place = here()
    start(place)  # from here on the ranks can reach each other

    x = torch.zeros(4, device=place.device)
    if place.rank == 0:
        x[0] = 1
    # This exchange ends only when all ranks have joined it: rank 0 has written before x is read.
    dist.all_reduce(torch.zeros(1, device=place.device))
    before = x.tolist()

    dist.broadcast(x, src=0)
    after = x.tolist()

    # One write per line, so that two ranks do not mix theirs.
    process = os.getpid()
    line = f"rank {place.rank}, process {process}: first {before}, after the broadcast {after}"
    print(f"{line}\n", end="")
    report("twins", place, process=process, before=before, after=after)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
