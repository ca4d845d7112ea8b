"""A clock for each rank of a pipeline, true on any number of cores, and messages that carry it.

`from dials import Action, Clock, receive, send`
"""

import math
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
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
        shortest_before = self.shortest.get(kind, math.inf)
        shortest = min(seconds, shortest_before)
        self.shortest[kind] = shortest

        both_dials = [WORK[kind], shortest]
        cost = torch.tensor(both_dials, dtype=torch.float64)
        begin = self.now
        end = begin + cost
        span = (kind, i, begin.tolist(), end.tolist())
        self.spans.append(span)
        self.now = end
        self.busy = self.busy + cost
        return output


def send(tensor: Tensor, to: int, clock: Clock) -> dist.Work:
    """Send a tensor, and the clock behind it. Do not wait until it has arrived."""
    numbers = tensor.detach().flatten()
    message = torch.cat([numbers, clock.now])
    return dist.isend(message, to)


def receive(like: Tensor, source: int, clock: Clock) -> Tensor:
    """Wait for a tensor of this shape. If its sender's clock is ahead of mine, mine jumps there."""
    size = like.numel() + 2  # with the clock's two dials
    message = torch.empty(size, dtype=like.dtype)
    dist.recv(message, source)
    clock.now = torch.maximum(clock.now, message[-2:])
    numbers = message[:-2]
    return numbers.view_as(like)
