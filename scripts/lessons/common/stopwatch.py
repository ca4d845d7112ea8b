"""Compare the times of several ways of doing one thing, so that chance and order decide as little
as possible.

`from stopwatch import in_turns, seconds, slowest`
"""

import time
from collections.abc import Callable

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
