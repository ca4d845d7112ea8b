"""What one process does alone: it loads pictures, and takes compiled steps. For ways.py."""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from course.measure.launched.training import Training
from loader import OneByOne, Pictures, as_is, augment, normalise
from model import ResNet

BATCH = 128
BATCHES = 4  # in an epoch of the loaders

Way = Callable[[], object]


class Noise(Pictures):
    """Random pictures and labels: what is in a picture changes no time."""

    def __init__(self, size: int):
        self.x = torch.randint(256, (size, 3, 32, 32), dtype=torch.uint8)
        self.y = torch.randint(10, (size,))


def loader(*_) -> dict[str, Callable[[], Way]]:
    """An epoch of lesson 03's loader, which shifts and mirrors a batch at a time, and one of
    torchvision's pipeline, picture by picture. Both shuffle whole batches; nothing is trained.
    """

    def ours() -> Way:
        pictures = Noise(BATCH * BATCHES)
        batches = DataLoader(pictures, BATCH, shuffle=True, collate_fn=as_is)
        return lambda: [normalise(augment(x)) for x, _ in batches]

    def theirs() -> Way:
        pictures: Dataset = OneByOne(Noise(BATCH * BATCHES))
        batches = DataLoader(pictures, BATCH, shuffle=True)
        return lambda: list(batches)

    return {"ours": ours, "torchvision": theirs, "torchvision again": theirs}


def compiled(*_) -> dict[str, Callable[[], Way]]:
    """Steps of the course's ResNet, NCHW in fp32, on ready pictures.

    The compiler is imported here: that takes as long as torch itself.
    """
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
