"""One training step in several ways: as it is, channels last, in 16 bits, compiled.

Run:  python speed.py --cold               # empties the cache of compiled code first
      python speed.py --only compiled      # finds there what an earlier run compiled
"""

import argparse
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch._dynamo import lookup_backend
from torch._dynamo.utils import counters
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, low_precision, report
from model import Residual, convolution
from stopwatch import in_turns, seconds

CACHE = "compiled"
os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(CACHE).absolute())  # for the next program to find
# We need no warning about a CUDA toolkit without a GPU, and no advice on what we show on purpose.
# TORCH_LOGS in the environment overrides the second line (norms.py).
logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)
torch._logging.set_logs(dynamo=logging.ERROR)
# Without a C++ compiler, torch's own kernels run the graphs: nothing is generated or fused.
COMPILER = os.environ.get("CXX", "g++")
BACKEND = "inductor" if shutil.which(COMPILER) else "aot_eager"


class Way(NamedTuple):
    """What is different from a step as it is."""

    channels_last: bool = False
    sixteen_bits: bool = False
    compiled: bool = False


WAYS = {
    "eager": Way(),
    "channels last": Way(channels_last=True),
    "16 bits": Way(channels_last=True, sixteen_bits=True),
    "compiled": Way(channels_last=True, compiled=True),
}
if torch.cuda.is_available():  # few CPUs have 16-bit units
    WAYS["compiled, 16 bits"] = Way(channels_last=True, sixteen_bits=True, compiled=True)


class Counting:
    """A backend for torch.compile: keeps the code of each graph, and lets `inner` compile it."""

    def __init__(self, inner: str = BACKEND):
        self.inner = lookup_backend(inner)
        self.graphs: list[str] = []

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Tensor], **options):
        self.graphs.append(graph.code)
        return self.inner(graph, inputs, **options)


def network() -> nn.Sequential:
    """The first layer and one residual block of our ResNet: (N, 3, 32, 32) → scores (N, 10)."""
    first = convolution(3, 32, kernel=4, stride=2)
    head = [nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(32, 10)]
    return nn.Sequential(first, Residual(32), *head)


def training(way: Way, x: Tensor, y: Tensor, backend: Counting) -> Callable[[], int]:
    """One training step, as a function to call again and again; `backend` gets what it compiles.

    It returns how many pictures the step has learnt from.
    """
    layout = torch.channels_last if way.channels_last else torch.contiguous_format
    x = x.to(memory_format=layout)
    model = network().to(x.device, memory_format=layout)
    run = model
    if way.compiled:
        run = torch.compile(model, backend=backend)  # for everyday use: torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    capability = None
    if x.is_cuda:
        capability = torch.cuda.get_device_capability()
    dtype = low_precision(capability)

    def step() -> int:
        optimizer.zero_grad()
        # Only timed here: to train in fp16, add a GradScaler (lesson 08).
        with torch.autocast(x.device.type, dtype, enabled=way.sixteen_bits):
            scores = run(x)
            loss = nn.functional.cross_entropy(scores, y)
        loss.backward()
        optimizer.step()
        return len(scores)

    return step


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cold", action="store_true", help="empty the compiler's cache first")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--only", choices=WAYS)
    args = parser.parse_args()
    place = here()
    if args.cold:
        shutil.rmtree(CACHE, ignore_errors=True)

    # Every way has a network of its own, and a backend of its own that counts its graphs.
    x = torch.randn(128, 3, 32, 32, device=place.device)
    y = torch.randint(10, (128,), device=place.device)
    names = list(WAYS)
    if args.only:
        names = [args.only]
    backends = {}
    steps = {}
    for name in names:
        backends[name] = Counting()
        steps[name] = training(WAYS[name], x, y, backends[name])

    # The first step on its own, since it compiles. Of the others, two are there to settle.
    first = {}
    for name, step in steps.items():
        first[name] = seconds(step, place.device)
    later = in_turns(steps, args.steps - 3, place.device, settle=2)

    rows = {}
    for name in names:
        graphs = len(backends[name].graphs)
        assert graphs or not WAYS[name].compiled, "torch.compile was called: nothing was compiled"
        typical = median(later[name])
        rows[name] = {"first": first[name], "times": later[name], "step": typical}
        rows[name]["graphs"] = graphs
        rows[name]["pictures"] = steps[name]()
        first_ms = 1000 * first[name]
        step_ms = 1000 * typical
        print(f"{name:18} first step {first_ms:8,.0f} ms, then {step_ms:7.1f} ms a step")
    misses = counters["inductor"]["fxgraph_cache_miss"]  # graphs that were not in the cache
    report("speed", place, ways=rows, misses=misses, backend=BACKEND)


if __name__ == "__main__":
    main()
