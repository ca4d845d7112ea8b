"""One rank meets a bad label and raises, while the others wait for it. Meant to fail at once.

Run:  torchrun --standalone --nproc-per-node=2 raises.py
      torchrun --standalone --nproc-per-node=2 raises.py --bare     # as without @record
"""

import argparse
import atexit
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


def batch(rank: int, step: int) -> torch.Tensor:
    """Four labels, each from 0 to 9; ValueError otherwise."""
    labels = torch.arange(4) + step
    if rank > 0 and step == 2:
        labels[3] = 12  # in the last rank's share of the data
    if labels.max() > 9:
        atexit.register(end_slowly)
        raise ValueError(f"label {labels.max()} in batch {step} is not one of 0 to 9")
    return labels


def end_slowly() -> None:
    """What a failing rank does after its error: as with a GPU, it takes a while to end.

    Its connections close in a later second than its error, by which the report tells the cause
    from what follows; and before its end, so that the others complain before torchrun ends them.
    """
    time.sleep(1.2)
    dist.destroy_process_group()
    time.sleep(0.8)


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bare", action="store_true", help="as if there were no @record")
    args = parser.parse_args()
    # gloo on the CPU everywhere: so the messages read the same with and without GPUs.
    place = here(gpus=0)
    if args.bare:
        os.environ.pop("TORCHELASTIC_ERROR_FILE", None)  # where @record would write its report
    # Not start(), which keeps the group to the end: here, its connections are to close before.
    dist.init_process_group(place.backend, timeout=timedelta(seconds=60))

    for step in range(4):
        time.sleep(0.1 * place.rank)  # the others are there first, and wait
        total = batch(place.rank, step).sum()
        dist.all_reduce(total)
        print(f"rank {place.rank}: step {step}, labels add up to {total}\n", end="", flush=True)
    report("raises", place)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
