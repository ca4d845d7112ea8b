"""One forward pass through a small network, as the profiler sees it: modules, operations, kernels.

Run:  python stack.py
      torchrun --standalone --nproc-per-node=1 stack.py
"""

import ctypes
import os
import re
import tempfile
from collections.abc import Callable
from contextlib import ExitStack

import torch
from torch import nn
from torch.backends import mkl, mkldnn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.profiler import ProfilerActivity, profile, record_function

from devices import here, report


def forward(network: nn.Sequential, x: torch.Tensor) -> torch.Tensor:
    """What `network(x)` does, with a label around each module: by itself the profiler sees operations only."""
    with record_function("nn.Sequential"):
        for layer in network:
            with record_function(f"nn.{type(layer).__name__}"):
                x = layer(x)
    return x


def inside(event, depth: int = 0) -> list[dict]:
    """An event and all that ran within it, in order: depth, name, start and end in µs, names of its GPU kernels."""
    times = {"start": event.time_range.start, "end": event.time_range.end}
    rows = [{"depth": depth, "name": event.name, **times, "kernels": [kernel.name for kernel in event.kernels]}]
    for child in event.cpu_children:
        rows += inside(child, depth + 1)
    return rows


def cpu_kernels(action: Callable) -> list[str]:
    """The kernels of MKL and oneDNN that `action` runs, in order. Both can name them, but only on C's own output."""
    terminal = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            with ExitStack() as talking:
                for library in [library for library in (mkl, mkldnn) if library.is_available()]:
                    talking.enter_context(library.verbose(library.VERBOSE_ON))
                action()
            ctypes.CDLL(None).fflush(None)
        finally:
            os.dup2(terminal, 1)
        file.seek(0)
        said = file.read().decode()
    found = re.findall(r"onednn_verbose.*primitive,exec,cpu,(\w+),([^,]+)|MKL_VERBOSE (\w+)\(", said)
    return [f"MKL {routine}" if routine else f"oneDNN {name} {kind}" for name, kind, routine in found]


@record
def main() -> None:
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's library reports its own start and stop otherwise
    place = here()
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 30 * 30, 256))
    network.to(place.device)
    x = torch.rand(128, 3, 32, 32, device=place.device)

    on_gpu = place.device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with torch.no_grad():  # lesson 02 says what this leaves out
        for _ in range(3):  # the first pass also chooses kernels and takes memory
            network(x)
        if on_gpu:
            torch.cuda.synchronize()  # or the profile would hold kernels of these first passes
        # acc_events: some versions of torch warn about profiles of several cycles, even where there is only one
        with profile(activities=activities, acc_events=True) as seen:
            forward(network, x)
        names = [] if on_gpu else cpu_kernels(lambda: network(x))

    events = seen.events()
    tree = inside(next(event for event in events if event.name == "nn.Sequential" and event.cpu_children))
    gpu = [event for event in events if event.device_type.name != "CPU" and not event.name.startswith("nn.")]
    kernels = [{"name": event.name, "start": event.time_range.start, "end": event.time_range.end} for event in gpu]
    order = f"self_{'device' if on_gpu else 'cpu'}_time_total"
    print(seen.key_averages().table(sort_by=order, row_limit=6, max_name_column_width=28).rstrip())
    report("stack", place, tree=tree, kernels=kernels, names=names or [kernel["name"] for kernel in kernels])


if __name__ == "__main__":
    main()
