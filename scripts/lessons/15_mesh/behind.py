"""Ranks 0 and 1 make a group without rank 2. The next group, of all ranks, never comes to be.

Run:  torchrun --standalone --nproc-per-node=3 behind.py --limit 5
"""

import argparse
import faulthandler
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=5, help="seconds to wait for a group")
    args = parser.parse_args()
    # gloo and the CPU everywhere: nccl connects at other moments.
    place = here(gpus=0)
    start(place)
    # A rank can wait longer than any time limit of its group: then this ends the process.
    # The others have time enough to fail first, on a busy machine too.
    faulthandler.dump_traceback_later(args.limit + 20, exit=True)

    if place.rank < 2:
        pair = dist.new_group([0, 1])  # the mistake: rank 2 does not call
        ones = torch.ones(1)
        dist.all_reduce(ones, group=pair)
        message = f"group “{pair.group_name}” adds up to {ones.item():.0f}"
        print(f"rank {place.rank}: {message}\n", end="", flush=True)

    limit = timedelta(seconds=args.limit)
    everyone = dist.new_group(timeout=limit)
    report("behind", place, group=everyone.group_name)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
