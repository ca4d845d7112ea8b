"""The most memory that a step needs, and for what: by PyTorch's own, private, trackers.

They follow tensors from operation to operation, so they work on a CPU, too.

Run:  python ledger.py
"""

from collections.abc import Callable

import torch
from torch import nn
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.fsdp import FSDPModule
from torch.optim import Optimizer


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
    # A key is a member of an enumeration, or a plain word.
    return {getattr(kind, "value", kind): size for kind, size in peak[device].items() if size}
