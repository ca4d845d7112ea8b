"""torch.compile: steps of a compiled network, and the first step with and without its cache.

For ways.py. The compiler is imported where it is used: that takes as long as torch itself.
"""

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import nn

from course.measure.launched.training import Training
from model import ResNet, convolution

BATCH = 128

Way = Callable[[], object]


def compiled(*_) -> dict[str, Callable[[], Way]]:
    """Steps of the course's ResNet, NCHW in fp32, on ready pictures."""
    from torch._dynamo.utils import counters

    def make(wrap: Callable[[nn.Module], nn.Module]) -> Way:
        torch.manual_seed(0)
        x = torch.randn(BATCH, 3, 32, 32)
        training = Training(ResNet(), lambda batch: x, wrap)
        training.steps(BATCH)
        return partial(training.steps, BATCH)

    def fused() -> Way:
        before = counters["stats"]["unique_graphs"]
        way = make(torch.compile)
        assert counters["stats"]["unique_graphs"] > before, "nothing was compiled"
        return way

    def eager() -> Way:
        return make(lambda model: model)

    return {"eager": eager, "eager again": eager, "compiled": fused}


def tiny() -> nn.Sequential:
    """Small enough to be compiled twenty times: a convolution, its norm and ReLU, and a head."""
    return nn.Sequential(
        convolution(3, 8),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 10),
    )


def first(cache: Path | None, x: torch.Tensor) -> None:
    """Compile a new network, and take its first step. Without a cache there is an empty one.

    What PyTorch still has in memory of an earlier network is forgotten first.
    """
    from torch._dynamo.utils import counters
    from torch._inductor.utils import clear_caches

    torch.compiler.reset()
    clear_caches()
    counters.clear()
    with tempfile.TemporaryDirectory() as empty:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache or empty)
        Training(tiny(), lambda batch: x, torch.compile).steps(len(x))
    missed = counters["inductor"]["fxgraph_cache_miss"]
    assert bool(missed) == (cache is None), f"{missed} graphs were not in the cache {cache}"


def first_step(*_) -> dict[str, Callable[[], Way]]:
    x = torch.randn(16, 3, 32, 32)
    kept = Path(tempfile.mkdtemp())
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(kept)
    Training(tiny(), lambda batch: x, torch.compile).steps(len(x))
    ways = {"cold": None, "warm": kept, "warm again": kept}
    return {name: lambda cache=cache: partial(first, cache, x) for name, cache in ways.items()}
