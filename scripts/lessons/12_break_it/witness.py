"""The hang of stuck.py, caught: when did each rank begin to wait, what did it call, who was missing?

Run:  torchrun --standalone --nproc-per-node=3 witness.py
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import (
    _dump_fr_trace_json,  # the flight recorder; its public reader is for nccl
)
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


def timed(call: Callable[[], object]) -> dict:
    """When `call` began and ended, in seconds of the clock, and what error it raised, if any."""
    begin, said = time.time(), ""
    try:
        call()
    except RuntimeError as error:
        said = str(error)
    return {"begin": begin, "end": time.time(), "said": said}


def recorded() -> list[str]:
    """The collectives that this rank has called so far, in order, as the flight recorder kept them."""
    entries = json.loads(_dump_fr_trace_json()).get("entries", [])  # no key before the first collective
    return [entry["profiling_name"].removeprefix("gloo:") for entry in entries]


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=5, help="seconds that a rank waits in a collective")
    args, place = parser.parse_args(), here()
    os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "200")  # entries that the flight recorder keeps
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    patience = timedelta(seconds=args.limit)
    training, plain, named = (dist.new_group(timeout=patience) for _ in range(3))
    rank, last = place.rank, place.world_size - 1
    before = len(recorded())

    def train() -> None:
        for _ in range(3):
            dist.all_reduce(torch.ones(1), group=training)
            time.sleep(0.5)

    story = {"training": timed(train)}
    if rank == 0:  # the mistake of stuck.py: rank 0 averages alone
        story["all_reduce"] = timed(lambda: dist.all_reduce(torch.ones(2), group=training))
    else:
        story["barrier"] = timed(lambda: dist.barrier(training))
    calls = recorded()[before:]

    # Another mistake: the last rank does not come at all. What do the others learn?
    dist.barrier()
    if place.world_size == 1 or rank != last:
        story["barrier, one missing"] = timed(lambda: dist.barrier(plain))
    dist.barrier()
    if place.world_size == 1 or rank != last:
        deed = lambda: dist.monitored_barrier(named, patience / 2, wait_all_ranks=True)  # noqa: E731
        story["monitored_barrier"] = timed(deed)
    dist.barrier()
    report("witness", place, story=story, calls=calls)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
