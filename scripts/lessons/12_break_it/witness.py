"""The hang of stuck.py, caught: since when did each rank wait, in which call, and for whom?

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

# The flight recorder; its public reader is for nccl.
from torch._C._distributed_c10d import _dump_fr_trace_json
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start


def timed(call: Callable[[], object]) -> dict:
    """When `call` began and ended, in seconds of the clock, and what error it raised, if any."""
    begin = time.time()
    message = ""
    try:
        call()
    except RuntimeError as error:
        message = str(error)
    return {"begin": begin, "end": time.time(), "said": message}


def recorded() -> list[str]:
    """The collectives that this rank has called so far, in order, by the flight recorder."""
    trace = json.loads(_dump_fr_trace_json())
    entries = trace.get("entries", [])  # no such key before the first collective
    return [entry["profiling_name"].removeprefix("gloo:") for entry in entries]


def train(group: dist.ProcessGroup) -> None:
    """Three steps on all ranks."""
    for _ in range(3):
        dist.all_reduce(torch.ones(1), group=group)
        time.sleep(0.5)


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=5, help="seconds to wait in a collective")
    args = parser.parse_args()
    # gloo on the CPU everywhere: so the messages read the same with and without GPUs.
    place = here(gpus=0)
    os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "200")  # entries that the flight recorder keeps
    start(place)
    # After a timeout a group is of no more use: each mistake has one of its own.
    patience = timedelta(seconds=args.limit)
    training = dist.new_group(timeout=patience)
    plain = dist.new_group(timeout=patience)
    named = dist.new_group(timeout=patience)
    before = len(recorded())

    # The mistake of stuck.py: rank 0 averages alone.
    story = {"training": timed(lambda: train(training))}
    if place.rank == 0:
        story["all_reduce"] = timed(lambda: dist.all_reduce(torch.ones(2), group=training))
    else:
        story["barrier"] = timed(lambda: dist.barrier(training))
    calls = recorded()[before:]

    # Another mistake: the last rank does not come at all. What do the others learn?
    comes = place.world_size == 1 or place.rank != place.world_size - 1
    dist.barrier()
    if comes:
        story["barrier, one missing"] = timed(lambda: dist.barrier(plain))
    dist.barrier()
    if comes:
        story["monitored_barrier"] = timed(
            lambda: dist.monitored_barrier(named, patience / 2, wait_all_ranks=True)
        )
    dist.barrier()
    report("witness", place, story=story, calls=calls)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
