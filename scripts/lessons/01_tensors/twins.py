"""Two ranks, one name: rank 0 writes into its tensor `x`. What does rank 1 find in its own?

Run:  python twins.py
      torchrun --standalone --nproc-per-node=2 twins.py
"""

import argparse
import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timeout", type=float, default=60, help="seconds that a rank waits for the others")
    args = parser.parse_args()
    place = rank, _, world_size, device, backend = here()
    dist.init_process_group(backend, timeout=timedelta(seconds=args.timeout))

    x = torch.zeros(4, device=device)
    if rank == 0:
        x[0] = 1
    # This exchange ends only when every rank has joined it, so x is read below after rank 0 has written.
    dist.all_reduce(torch.zeros(1, device=device))
    before = x.tolist()

    dist.broadcast(x, src=0)
    after = x.tolist()

    # One write per line, so that two ranks do not mix theirs.
    print(f"rank {rank}, process {os.getpid()}: first {before}, after the broadcast {after}\n", end="")
    report("twins", place, process=os.getpid(), before=before, after=after)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
