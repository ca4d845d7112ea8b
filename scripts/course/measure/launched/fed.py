"""How pictures come to a training: one by one or in batches, by workers or not. For ways.py.

All loaders shuffle the same pictures and hand out whole batches of 128.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from course.measure.launched.training import small_cnn
from loader import OneByOne, Pictures, as_is, augment, normalise

BATCH = 128
BATCHES = 4  # in an epoch of the loaders alone
STEPS = 8  # in an epoch with training steps

Way = Callable[[], object]


class Noise(Pictures):
    """Random pictures and labels: what is in a picture changes no time."""

    def __init__(self, size: int):
        self.x = torch.randint(256, (size, 3, 32, 32), dtype=torch.uint8)
        self.y = torch.randint(10, (size,))


def whole(batches: int, **options) -> DataLoader:
    """Lesson 03's loader: a whole batch at a time, which is shifted and mirrored afterwards."""
    return DataLoader(Noise(BATCH * batches), BATCH, shuffle=True, collate_fn=as_is, **options)


def single(batches: int, **options) -> DataLoader:
    """torchvision's pipeline: picture by picture."""
    pictures: Dataset = OneByOne(Noise(BATCH * batches))
    return DataLoader(pictures, BATCH, shuffle=True, **options)


def loader(*_) -> dict[str, Callable[[], Way]]:
    """An epoch of each loader; nothing is trained."""

    def ours() -> Way:
        batches = whole(BATCHES)
        return lambda: [normalise(augment(x)) for x, _ in batches]

    def theirs() -> Way:
        batches = single(BATCHES)
        return lambda: list(batches)

    return {"ours": ours, "torchvision": theirs, "torchvision again": theirs}


class Fed:
    """An epoch of training steps of a small network, fed by a loader."""

    def __init__(self, batches: DataLoader, prepare: Callable):
        torch.manual_seed(0)
        self.batches = batches
        self.prepare = prepare
        self.model = small_cnn().to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01, momentum=0.9)

    def __call__(self) -> None:
        for x, y in self.batches:
            x = self.prepare(x)
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()


def last(x: torch.Tensor) -> torch.Tensor:
    """Channels last, as the pictures of our own loader are."""
    return x.contiguous(memory_format=torch.channels_last)


def workers(*_) -> dict[str, Callable[[], Way]]:
    """Epochs with the pictures made in this process, and in one worker that lives on."""
    live = {"num_workers": 1, "persistent_workers": True}

    def in_batches(**options) -> Way:
        return Fed(whole(STEPS, **options), lambda x: normalise(augment(x)))

    def one_by_one(**options) -> Way:
        return Fed(single(STEPS, **options), last)

    return {
        "batches": in_batches,
        "batches, worker": partial(in_batches, **live),
        "one by one": one_by_one,
        "one by one again": one_by_one,
        "one by one, worker": partial(one_by_one, **live),
    }
