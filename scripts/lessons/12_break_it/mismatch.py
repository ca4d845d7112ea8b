"""Ranks that call different collectives, or the same one with different tensors.

What is said, and what is computed?

Run:  torchrun --standalone --nproc-per-node=2 mismatch.py --cases missing order
      torchrun --standalone --nproc-per-node=2 mismatch.py --debug DETAIL
"""

import argparse
import os
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report, start


def collectives(rank: int, group: dist.ProcessGroup) -> torch.Tensor:
    """Rank 0 adds over all ranks, the others take a copy of rank 1's tensor."""
    x = torch.ones(4)
    if rank == 0:
        dist.all_reduce(x, group=group)
    else:
        dist.broadcast(x, src=1, group=group)
    return x


def missing(rank: int, group: dist.ProcessGroup) -> torch.Tensor:
    """The last rank does not call at all."""
    x = torch.ones(4)
    if rank < dist.get_world_size() - 1 or rank == 0:
        dist.all_reduce(x, group=group)
    return x


def order(rank: int, group: dist.ProcessGroup) -> torch.Tensor:
    """A loss (1 on each rank) and an accuracy (100 on each) are added, in different orders."""
    loss = torch.tensor([1.0])
    accuracy = torch.tensor([100.0])
    numbers = [loss, accuracy] if rank == 0 else [accuracy, loss]
    for number in numbers:
        dist.all_reduce(number, group=group)
    return torch.cat([loss, accuracy])


def dtypes(rank: int, group: dist.ProcessGroup) -> torch.Tensor:
    """Rank 0 brings fractions, the others whole numbers: as many bytes."""
    dtype = torch.float32 if rank == 0 else torch.int32
    x = torch.ones(4, dtype=dtype)
    dist.all_reduce(x, group=group)
    return x


def shapes(rank: int, group: dist.ProcessGroup) -> torch.Tensor:
    """Each rank brings one number more than the rank before it."""
    x = torch.ones(4 + rank)
    dist.all_reduce(x, group=group)
    return x


CASES = {case.__name__: case for case in (missing, collectives, order, dtypes, shapes)}


def meeting(case: Callable, place: Place, limit: float) -> dict:
    """What a case says or gives on this rank, and after how many seconds."""
    patience = timedelta(seconds=limit)
    group = dist.new_group(timeout=patience)
    message = ""
    values = []
    begun = time.monotonic()
    try:
        values = case(place.rank, group).tolist()
    except RuntimeError as error:
        message = str(error)
    seconds = time.monotonic() - begun
    return {"said": message, "values": values, "seconds": seconds}


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=2, help="seconds to wait in a collective")
    parser.add_argument("--debug", choices=["OFF", "INFO", "DETAIL"], default="OFF")
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    args = parser.parse_args()
    # gloo on the CPU everywhere: so the messages read the same with and without GPUs.
    place = here(gpus=0)
    # As set in the shell, before anything is set up.
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = args.debug
    dist.set_debug_level_from_env()
    start(place)

    outcomes = {}
    for name in args.cases:
        outcomes[name] = meeting(CASES[name], place, args.limit)
        # Each time, since shapes may end the process.
        report("mismatch", place, debug=args.debug, told=outcomes)
        if name != "shapes":
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
