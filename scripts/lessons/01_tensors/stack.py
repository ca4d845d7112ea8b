"""One forward pass through a small network, as the profiler sees it: modules, operations, kernels.

Run:  python stack.py
      torchrun --standalone --nproc-per-node=1 stack.py
"""

import ctypes
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack

import torch
from torch import nn
from torch.backends import mkl, mkldnn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.profiler import ProfilerActivity, profile, record_function

from devices import here, report

# What MKL and oneDNN print about a kernel: oneDNN its purpose and its name, MKL its routine.
KERNEL = re.compile(r"onednn_verbose.*primitive,exec,cpu,(\w+),([^,]+)|MKL_VERBOSE (\w+)\(")


def forward(network: nn.Sequential, x: torch.Tensor) -> torch.Tensor:
    """What `network(x)` does, with a label around each module: a profiler sees only operations."""
    with record_function("nn.Sequential"):
        for layer in network:
            with record_function(f"nn.{type(layer).__name__}"):
                x = layer(x)
    return x


def span(event) -> dict:
    """Name of an event, with its start and its end in µs."""
    times = event.time_range
    return {"name": event.name, "start": times.start, "end": times.end}


def inside(event, depth: int = 0) -> list[dict]:
    """An event and all that ran within it, in order: depth, span, names of its GPU kernels."""
    kernels = [kernel.name for kernel in event.kernels]
    rows = [{"depth": depth, **span(event), "kernels": kernels}]
    for child in event.cpu_children:
        rows += inside(child, depth + 1)
    return rows


def printed(action: Callable) -> str:
    """What `action` prints past Python, on the output that C has."""
    terminal = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            action()
            ctypes.CDLL(None).fflush(None)
        finally:
            os.dup2(terminal, 1)
        file.seek(0)
        return file.read().decode()


def cpu_kernels(action: Callable) -> list[str]:
    """The kernels of MKL and oneDNN that `action` runs, in order. Both name them when asked to."""
    with ExitStack() as talking:
        for library in (mkl, mkldnn):
            if library.is_available():
                talking.enter_context(library.verbose(library.VERBOSE_ON))
        text = printed(action)
    names = []
    for purpose, name, routine in KERNEL.findall(text):
        if routine:
            names.append(f"MKL {routine}")
        else:
            names.append(f"oneDNN {purpose} {name}")
    return names


def gpu_kernels(events: Iterable) -> list[dict]:
    """The spans of a GPU's kernels, on the GPU's own time."""
    spans = []
    for event in events:
        on_gpu = event.device_type.name != "CPU"
        label = event.name.startswith("nn.")  # ours, which have a span on the GPU, too
        if on_gpu and not label:
            spans.append(span(event))
    return spans


def watched(network: nn.Sequential, x: torch.Tensor, on_gpu: bool) -> profile:
    """The profile of one forward pass."""
    activities = [ProfilerActivity.CPU]
    if on_gpu:
        activities.append(ProfilerActivity.CUDA)
    for _ in range(3):  # the first pass also chooses kernels and takes memory
        network(x)
    torch.get_device_module(x.device).synchronize()  # or the profile would hold kernels of these
    # acc_events: some versions of torch warn about several cycles, even where there is only one.
    with profile(activities=activities, acc_events=True) as profiler:
        forward(network, x)
    return profiler


@record
def main() -> None:
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or the profiler reports its start and stop
    place = here()
    on_gpu = place.device.type == "cuda"

    torch.manual_seed(0)
    convolution = nn.Conv2d(3, 16, 3)
    linear = nn.Linear(16 * 30 * 30, 256)
    network = nn.Sequential(convolution, nn.ReLU(), nn.Flatten(), linear)
    network.to(place.device)
    x = torch.rand(128, 3, 32, 32, device=place.device)

    with torch.no_grad():  # lesson 02 says what this leaves out
        profiler = watched(network, x, on_gpu)
        names = []
        if not on_gpu:
            names = cpu_kernels(lambda: network(x))

    events = profiler.events()
    roots = []
    for event in events:
        if event.name == "nn.Sequential" and event.cpu_children:
            roots.append(event)
    tree = inside(roots[0])
    kernels = gpu_kernels(events)
    order = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    averages = profiler.key_averages()
    table = averages.table(sort_by=order, row_limit=6, max_name_column_width=28)
    print(table.rstrip())
    names = names or [kernel["name"] for kernel in kernels]
    report("stack", place, tree=tree, kernels=kernels, names=names)


if __name__ == "__main__":
    main()
