"""Tells what a rank has computed: tests/campaigns/forked.py lets devices.py import this at its end.

Whenever a program reports its results, or leaves its process group, a line goes into FORKS_RECORD:
a digest of every parameter that an optimizer has trained, and of torch's random numbers.
"""

import functools
import hashlib
import json
import multiprocessing
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

import devices

RECORD = Path(os.environ["FORKS_RECORD"])
OPTIMIZERS = []  # of this process; kept, so that their parameters are there at the end

make = torch.optim.Optimizer.__init__
leave = dist.destroy_process_group
report = devices.report


def digest(tensor: torch.Tensor) -> str:
    """A tensor's bytes, or those of this rank's shard."""
    own = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    whole = own.detach().cpu().contiguous().flatten()
    return hashlib.sha256(whole.view(torch.uint8).numpy().tobytes()).hexdigest()[:16]


def tell(what: str, numbers: dict) -> None:
    weights = []
    for optimizer in OPTIMIZERS:
        for group in optimizer.param_groups:
            weights += [digest(parameter) for parameter in group["params"]]
    line = {
        "program": Path(sys.argv[0]).stem,
        "arguments": sys.argv[1:],
        "rank": os.environ.get("RANK", ""),
        "what": what,
        "weights": weights,
        "random": digest(torch.get_rng_state()),
        "numbers": numbers,
        "forked": multiprocessing.parent_process() is not None,
    }
    with RECORD.open("a") as file:
        file.write(json.dumps(line) + "\n")


@functools.wraps(make)
def made(optimizer, *arguments, **options):
    make(optimizer, *arguments, **options)
    OPTIMIZERS.append(optimizer)


@functools.wraps(leave)
def left(*arguments, **options):
    tell("leaves", {})
    return leave(*arguments, **options)


@functools.wraps(report)
def reported(name, place, **numbers):
    tell(f"reports {name}", json.loads(json.dumps(numbers)))
    return report(name, place, **numbers)


torch.optim.Optimizer.__init__ = made
dist.destroy_process_group = left
devices.report = reported
