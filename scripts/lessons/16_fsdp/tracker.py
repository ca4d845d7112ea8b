"""The most memory that a step needs: what PyTorch's trackers say, and what the allocator gave out.

The trackers follow each tensor and know what it is for. They are private parts of PyTorch. The
allocator knows nothing of that, but misses nothing.

Run:  python ledger.py
"""

import gc
import os
from collections.abc import Callable

# Else the profiler reports on itself, and that there is no GPU.
os.environ.setdefault("KINETO_LOG_LEVEL", "6")

import torch
from torch import nn
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.fsdp import FSDPModule
from torch.optim import Optimizer
from torch.profiler import ProfilerActivity, profile


def tracked(
    model: nn.Module, optimizer: Optimizer, step: Callable, device: torch.device
) -> dict[str, int]:
    """Bytes at the worst moment of `step` by PyTorch's kinds, and their "Total"; 0 are left out.

    Call it after the first step, when the optimizer has its state.
    """
    if isinstance(model, FSDPModule):
        tracker = FSDPMemTracker(model, optimizer)
    else:
        tracker = MemTracker()
        tracker.track_external(model, optimizer)
    with tracker:
        step()
    peak = tracker.get_tracker_snapshot("peak")
    sizes = {}
    for kind, size in peak[device].items():
        name = getattr(kind, "value", kind)  # of a member of an enumeration, or a plain word
        if size:
            sizes[name] = size
    return sizes


def allocated(step: Callable, device: torch.device, resting: int) -> int:
    """Bytes at the worst moment of `step`, from the allocator; `resting` were there before."""
    gc.collect()  # what earlier models left must not be freed within the step
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        step()
        return torch.cuda.max_memory_allocated()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as run:
        step()
    events = run.profiler.kineto_results.events()
    changes = []
    for event in events:
        if event.name() == "[memory]":
            changes.append((event.start_ns(), event.nbytes()))
    now = resting
    most = resting
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most
