"""Times of several ways to do one thing: in turns, in random order. For the programs of the bench.

`from course.measure.launched.turns import turns`
"""

import random
import time
from collections.abc import Callable

Seconds = dict[str, list[float]]  # of each way, round by round


def turns(
    ways: dict[str, Callable[[], object]],
    rounds: int,
    seed: int,
    settle: int = 0,
    before: Callable[[], object] | None = None,
) -> Seconds:
    """Seconds of each way in each round.

    In a round each way has one turn, and the order is drawn anew for every round. Ranks that are
    given one seed draw the same orders. The first `settle` rounds do not count: things are warming
    up. `before` is called ahead of each turn, outside of its time.
    """
    chance = random.Random(seed)
    order = list(ways)
    seconds: Seconds = {name: [] for name in ways}
    for number in range(settle + rounds):
        chance.shuffle(order)
        for name in order:
            if before:
                before()
            begin = time.perf_counter()
            ways[name]()
            took = time.perf_counter() - begin
            if number >= settle:
                seconds[name].append(took)
    return seconds


def made(makers: dict[str, Callable[[], Callable]], seed: int) -> dict[str, Callable]:
    """Each maker's way. They are made in random order, too: none always has the best memory."""
    names = list(makers)
    random.Random(seed).shuffle(names)
    return {name: makers[name]() for name in names}


def copies(way: Callable, number: int) -> dict[str, Callable]:
    """One way, or its maker, so many times, named 0, 1, …: any two of them are equal."""
    return {str(copy): way for copy in range(number)}
