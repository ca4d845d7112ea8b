"""A clock for each rank of a pipeline, true on any number of cores.

`from dials import Action, Clock`
"""

import math
import time
from collections.abc import Callable

import torch
from torch import Tensor

Action = tuple[str, int]  # "F" or "B", and the number of a micro-batch

WORK = {"F": 1, "B": 2}  # a backward pass has two matrix products for each one of the forward


class Clock:
    """This rank's own time, on two dials: units of work, and CPU seconds. Waiting moves neither.

    Whatever else runs on this machine can only make an action longer. All micro-batches are equally
    large, so each action counts for the shortest time that any of its kind has taken so far.
    """

    def __init__(self, shortest: dict[str, float]) -> None:
        self.shortest = shortest
        self.now = torch.zeros(2, dtype=torch.float64)
        self.busy = torch.zeros(2, dtype=torch.float64)
        self.spans: list[tuple] = []  # kind, micro-batch, both dials before it, both after it

    def run(self, action: Action, call: Callable, *args) -> Tensor:
        kind, i = action
        began = time.thread_time()  # CPU seconds of this thread: the time on the wall plays no part
        output = call(*args)
        seconds = time.thread_time() - began
        self.shortest[kind] = min(seconds, self.shortest.get(kind, math.inf))
        cost = torch.tensor([WORK[kind], self.shortest[kind]], dtype=torch.float64)
        self.spans.append((kind, i, self.now.tolist(), (self.now + cost).tolist()))
        self.now = self.now + cost
        self.busy = self.busy + cost
        return output
