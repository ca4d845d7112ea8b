"""One training step in several ways: as it is, channels last, in 16 bits, compiled.

Run:  python speed.py --cold               # empties the cache of compiled code first
      python speed.py --only compiled      # finds there what an earlier run compiled
"""

import argparse
import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn
from torch._dynamo import lookup_backend
from torch._dynamo.utils import counters
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, low_precision, report
from model import Residual, convolution

os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path("compiled").absolute())  # for the next program to find
logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)  # a CUDA toolkit without a GPU is no news
torch._logging.set_logs(dynamo=logging.ERROR)  # nor do we need advice on what we show on purpose
# Without a C++ compiler the captured graphs run with torch's own kernels: nothing is generated, nothing fused.
BACKEND = "inductor" if shutil.which(os.environ.get("CXX", "g++")) else "aot_eager"

WAYS = {  # channels last, 16 bits, compiled
    "eager": (False, False, False),
    "channels last": (True, False, False),
    "16 bits": (True, True, False),
    "compiled": (True, False, True),
}
WAYS |= {"compiled, 16 bits": (True, True, True)} if torch.cuda.is_available() else {}  # few CPUs have 16-bit units


class Counting:
    """A backend for torch.compile: keeps the code of each graph that it is given, and lets `inner` compile it."""

    def __init__(self, inner: str = BACKEND):
        self.inner, self.graphs = lookup_backend(inner), []

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Tensor], **options):
        self.graphs.append(graph.code)
        return self.inner(graph, inputs, **options)


def network() -> nn.Sequential:
    """The first layer and one residual block of the course's ResNet: pictures (N, 3, 32, 32) → ten scores (N, 10)."""
    end = [nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(32, 10)]
    return nn.Sequential(convolution(3, 32, kernel=4, stride=2), Residual(32), *end)


def training(x: Tensor, y: Tensor, last: bool, low: bool, compiled: bool) -> tuple[Callable[[], float], Counting]:
    """One training step as a function that returns its seconds, and the backend that counts the graphs."""
    layout = torch.channels_last if last else torch.contiguous_format
    dtype = low_precision(torch.cuda.get_device_capability() if x.is_cuda else None)
    model, x, backend = network().to(x.device, memory_format=layout), x.to(memory_format=layout), Counting()
    run = torch.compile(model, backend=backend) if compiled else model  # for everyday use: torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)

    def step() -> float:
        start = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast(x.device.type, dtype, enabled=low):
            loss = nn.functional.cross_entropy(run(x), y)
        loss.backward()
        optimizer.step()
        loss.item()  # waits for the GPU
        return time.perf_counter() - start

    return step, backend


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cold", action="store_true", help="empty the cache of compiled code first")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--only", choices=WAYS)
    args, place = parser.parse_args(), here()
    if args.cold:
        shutil.rmtree("compiled", ignore_errors=True)
    x, y = torch.randn(128, 3, 32, 32, device=place.device), torch.randint(10, (128,), device=place.device)
    ways = {name: training(x, y, *WAYS[name]) for name in ([args.only] if args.only else WAYS)}
    took = {name: [step() for _ in range(3)] for name, (step, _) in ways.items()}  # the first step, and two to settle
    for name in [*ways] * (args.steps - 3):  # in turns, so that whatever else this machine does slows all alike
        took[name].append(ways[name][0]())
    for name, (_, backend) in ways.items():
        way = took[name] = {"first": took[name][0], "step": median(took[name][3:]), "graphs": len(backend.graphs)}
        assert way["graphs"] or not WAYS[name][2], "torch.compile was called, and nothing was compiled"
        print(f"{name:18} first step {1000 * way['first']:8,.0f} ms, then {1000 * way['step']:7.1f} ms a step")
    report("speed", place, ways=took, misses=counters["inductor"]["fxgraph_cache_miss"])  # graphs not in the cache


if __name__ == "__main__":
    main()
