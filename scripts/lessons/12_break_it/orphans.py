"""Ranks whose torchrun is killed: they train on, and nobody watches. Meant to fail.

Run:  torchrun --standalone --nproc-per-node=2 orphans.py      # they end after a while
"""

import argparse
import os
import signal
import time

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="that the ranks train on, alone")
    args = parser.parse_args()
    # gloo on the CPU everywhere: orphans of this lesson hold no GPU.
    place = here(gpus=0)
    start(place)
    torchrun = os.getppid()
    dist.barrier()
    print(
        f"rank {place.rank} is process {os.getpid()}, started by {torchrun}\n", end="", flush=True
    )
    dist.barrier()

    if place.rank == 0:
        os.kill(torchrun, signal.SIGKILL)  # as the system does when memory runs out
    for _ in range(round(10 * args.seconds)):
        time.sleep(0.1)
        dist.all_reduce(torch.ones(1))  # stands for a step of training
    report("orphans", place)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
