"""Learning rates that were chosen, and not cut off: two sides search with equally many tries.

A rate at the end of a list may only be the best of the list. So each side goes on, beyond the end
at which its best rate is, until worse rates are known on both sides of it.
"""

import math
from collections.abc import Callable, Iterable

FACTOR = 2.0  # from one rate to the next, beyond the rates that a side begins with


class Search:
    """The rates that one side has tried, and how many errors each made.

    `errors` trains with each of some rates; the first ones are trained together. `known` are rates
    that were tried before, and `spent` counts what else this side has tried, as other recipes.
    """

    def __init__(
        self,
        rates: Iterable[float],
        errors: Callable[[list[float]], list[float]],
        known: dict[float, float] | None = None,
        spent: int = 0,
    ):
        self.waiting = list(rates)
        self.errors = errors
        self.tried = dict(known or {})  # rate → errors
        self.spent = spent

    @property
    def tries(self) -> int:
        return len(self.tried) + self.spent

    @property
    def best(self) -> float:
        return min(self.tried, key=self.tried.__getitem__)

    def beside(self) -> tuple[int, int]:
        """How many of the tried rates are below the best, and how many above."""
        below = sum(rate < self.best for rate in self.tried)
        return below, len(self.tried) - below - 1

    def inside(self, worse: int) -> bool:
        """Were so many worse rates tried on each side of the best?"""
        return not self.waiting and min(self.beside()) >= worse

    def next_rates(self, worse: int) -> list[float]:
        """The first ones; then one beyond an open end; then one beside the best."""
        if self.waiting:
            return self.waiting
        below, above = self.beside()
        if below < worse and below <= above:
            return [min(self.tried) / FACTOR]
        if above < worse:
            return [max(self.tried) * FACTOR]
        rates = sorted(self.tried)
        place = rates.index(self.best)
        neighbours = [rates[place - 1], rates[place + 1]]
        better = min(neighbours, key=self.tried.__getitem__)
        return [math.sqrt(self.best * better)]

    def step(self, worse: int) -> None:
        rates = [float(f"{rate:.4g}") for rate in self.next_rates(worse)]  # as in a way's name
        self.waiting = []
        self.tried |= zip(rates, self.errors(rates), strict=True)

    def told(self, worse: int) -> dict:
        """What a reader should know of it."""
        tried = {f"{rate:g}": round(errors, 2) for rate, errors in sorted(self.tried.items())}
        return {"inside": self.inside(worse), "tries": self.tries, "tried": tried}


def search(sides: list[Search], worse: int, most: int) -> None:
    """Side by side, until both know so many worse rates on each side, or `most` were tried.

    Both sides try as many rates, also when one of them has found its best earlier.
    """
    for side in sides:
        if side.waiting:
            side.step(worse)
    if len({side.tries for side in sides}) > 1:
        raise ValueError(f"not equal: {[side.tries for side in sides]} tries")
    while not all(side.inside(worse) for side in sides) and sides[0].tries < most:
        for side in sides:
            side.step(worse)
