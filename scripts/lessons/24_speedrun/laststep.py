"""Two ranks of different speed stop by the clock. Do they stop at the same step?

Run:  python laststep.py
      torchrun --standalone --nproc-per-node=2 laststep.py --seconds 1
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0)
    args = parser.parse_args()
    start(place)
    dist.all_reduce(torch.zeros(1, device=place.device))  # the first message takes longer

    steps = 0
    began = time.perf_counter()
    while True:
        passed = time.perf_counter() - began
        # BEGIN SOLUTION
        told = torch.tensor(passed, dtype=torch.float64, device=place.device)
        dist.broadcast(told, src=0)
        passed = told.item()
        # STUB # every rank believes its own watch
        # END SOLUTION
        if passed >= args.seconds:
            break
        time.sleep(0.005 * (1 + place.rank))  # a step; that of rank 1 takes twice as long
        steps += 1
    took = time.perf_counter() - began

    print(f"rank {place.rank}: {steps} steps in {took:.2f} s\n", end="")
    report("laststep", place, steps=steps, took=took, passed=passed)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
