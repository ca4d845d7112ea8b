"""Compare the times of several ways of doing one thing, so that chance and order decide as little
as possible.

`from stopwatch import in_turns, seconds, slowest, verdict`
"""

import math
import time
from collections.abc import Callable, Sequence
from statistics import median

import torch
import torch.distributed as dist


def seconds(way: Callable[[], object], device: torch.device) -> float:
    """Seconds that one call takes, including the work that it leaves to the GPU."""
    synchronize = torch.get_device_module(device).synchronize  # does nothing on a CPU
    synchronize()
    start = time.perf_counter()
    way()
    synchronize()
    return time.perf_counter() - start


def slowest(own: float, device: torch.device) -> float:
    """The largest of all ranks' numbers, on every rank: a step ends with the slowest rank."""
    numbers = torch.tensor(own, dtype=torch.float64, device=device)
    dist.all_reduce(numbers, dist.ReduceOp.MAX)
    return numbers.item()


def in_turns(
    ways: dict[str, Callable[[], object]],
    rounds: int,
    device: torch.device,
    settle: int = 1,
    before: Callable[[], object] | None = None,
) -> dict[str, list[float]]:
    """Seconds of each way in each round.

    Within a round the ways take turns, so that whatever else the machine does slows all of them
    alike. Every other round goes backwards, so that none always comes first. The first `settle`
    rounds do not count: things are warming up. `before` is called ahead of each way, outside of its
    time: with `dist.barrier` all ranks begin together.
    """
    times: dict[str, list[float]] = {name: [] for name in ways}
    order = list(ways)
    for number in range(settle + rounds):
        for name in order:
            if before:
                before()
            took = seconds(ways[name], device)
            if number >= settle:
                times[name].append(took)
        order.reverse()
    return times


def interval(ratios: Sequence[float]) -> tuple[float, float] | None:
    """Where the true median is, nine times in ten or more; None for fewer than five rounds.

    If two ways are equally fast, each round is a toss of a coin. So leave out as many of the
    smallest ratios, and of the largest, as coins allow (the sign test).
    """
    ordered = sorted(ratios)
    rounds = len(ordered)
    rare = 0.1 * 2**rounds / 2  # of all rows of heads and tails, at either end
    heads, rows = 0, 1
    while rows <= rare:
        heads += 1
        rows += math.comb(rounds, heads)
    return (ordered[heads - 1], ordered[-heads]) if heads else None


def verdict(own: Sequence[float], other: Sequence[float]) -> str:
    """How long one way takes beside another, from the seconds of both in the same rounds, in words:
    "0.83 of the time (0.81 – 0.86): faster", "slower", or "no clear difference".
    """
    ratios = [a / b for a, b in zip(own, other, strict=True)]
    within = interval(ratios)
    if within is None:
        return f"{median(ratios):.2f} of the time: too few rounds to tell"
    low, high = within
    word = "faster" if high < 1 else "slower" if low > 1 else "no clear difference"
    return f"{median(ratios):.2f} of the time ({low:.2f} – {high:.2f}): {word}"
