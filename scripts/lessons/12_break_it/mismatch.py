"""Ranks that call different collectives, or the same one with different tensors. What is said, and what is computed?

Run:  torchrun --standalone --nproc-per-node=2 mismatch.py
      torchrun --standalone --nproc-per-node=2 mismatch.py --debug DETAIL
"""

import argparse
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


def collectives(rank: int, group: dist.ProcessGroup) -> torch.Tensor:
    """Rank 0 adds over all ranks, the others take a copy of rank 1's tensor."""
    if rank == 0:
        dist.all_reduce(x := torch.ones(4), group=group)
    else:
        dist.broadcast(x := torch.ones(4), src=1, group=group)
    return x


def missing(rank: int, group: dist.ProcessGroup) -> torch.Tensor:
    """The last rank does not call at all."""
    x = torch.ones(4)
    if rank < dist.get_world_size() - 1 or rank == 0:
        dist.all_reduce(x, group=group)
    return x


def order(rank: int, group: dist.ProcessGroup) -> torch.Tensor:
    """A loss (1 on each rank) and an accuracy (100 on each rank) are added, but not in the same order everywhere."""
    loss, accuracy = torch.tensor([1.0]), torch.tensor([100.0])
    for number in [loss, accuracy] if rank == 0 else [accuracy, loss]:
        dist.all_reduce(number, group=group)
    return torch.cat([loss, accuracy])


def dtypes(rank: int, group: dist.ProcessGroup) -> torch.Tensor:
    """Rank 0 brings fractions, the others whole numbers: as many bytes."""
    x = torch.ones(4, dtype=torch.float32 if rank == 0 else torch.int32)
    dist.all_reduce(x, group=group)
    return x


def shapes(rank: int, group: dist.ProcessGroup) -> torch.Tensor:
    """Each rank brings one number more than the rank before it."""
    dist.all_reduce(x := torch.ones(4 + rank), group=group)
    return x


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=2, help="seconds that a rank waits in a collective")
    parser.add_argument("--debug", choices=["OFF", "INFO", "DETAIL"], default="OFF")
    args, place = parser.parse_args(), here()
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = args.debug  # as set in the shell, before anything is set up
    dist.set_debug_level_from_env()
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))

    told = {}
    for case in (missing, collectives, order, dtypes, shapes):
        group = dist.new_group(timeout=timedelta(seconds=args.limit))
        said, values, start = "", [], time.monotonic()
        try:
            values = case(place.rank, group).tolist()
        except RuntimeError as error:
            said = str(error)
        told[case.__name__] = {"said": said, "values": values, "seconds": time.monotonic() - start}
        report("mismatch", place, debug=args.debug, told=told)  # each time: the last case may end the process
        if case != shapes:
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
