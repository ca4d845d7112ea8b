"""An accuracy that rank 0 alone averages, while the others wait at a barrier.

Meant to fail, after seconds of silence.

Run:  torchrun --standalone --nproc-per-node=2 stuck.py
"""

import argparse
import faulthandler
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=5, help="seconds to wait in a collective")
    args = parser.parse_args()
    # gloo on the CPU everywhere: so the messages read the same with and without GPUs.
    place = here(gpus=0)
    start(place)
    # All have come: from here on, little patience.
    patience = timedelta(seconds=args.limit)
    group = dist.new_group(timeout=patience)
    # In which line is this rank when it has waited for most of that time?
    stacks = Path(f"stuck.rank{place.rank}.txt").open("w")  # noqa: SIM115
    faulthandler.dump_traceback_later(0.6 * args.limit, file=stacks)

    for _ in range(3):  # stands for the training
        dist.all_reduce(torch.ones(1), group=group)
    sums = torch.tensor([7.0, 10.0])  # right answers and pictures of this rank
    if place.rank == 0:
        dist.all_reduce(sums, group=group)  # called by rank 0 alone: the mistake
        print(f"accuracy {sums[0] / sums[1]:.0%}")
    dist.barrier(group)  # nobody leaves before rank 0 has printed
    faulthandler.cancel_dump_traceback_later()
    report("stuck", place)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
