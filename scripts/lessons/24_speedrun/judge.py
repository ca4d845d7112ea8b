"""Which changes may stay? A rule under which chance keeps nothing, in 95 of 100 waterfalls.

A waterfall is a list of candidates, tried one after another. Each is compared with what was kept so
far, in several pairs of trainings. A difference is errors without the change − errors with it.

Run:  python judge.py --waterfalls 20000
"""

import argparse
import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report

LEVEL = 0.05  # of all waterfalls whose changes do nothing may keep one
LOOK = 3  # after so many pairs, a change that is not ahead is given up
Rule = Callable[[Tensor, int], Tensor]


def tail(t: float, freedom: int) -> float:
    """How likely chance makes Student's t larger than this, with `freedom` = pairs − 1.

    With t = √freedom · tan(angle), the density is a power of the cosine.
    """
    tangent = t / math.sqrt(freedom)
    angle = math.atan(tangent)
    top = math.pi / 2
    whole = torch.linspace(-top, top, 20_001, dtype=torch.float64)
    above = torch.linspace(angle, top, 20_001, dtype=torch.float64)
    areas = []
    for line in (above, whole):
        density = line.cos() ** (freedom - 1)
        area = torch.trapezoid(density, line)
        areas.append(area)
    share = areas[0] / areas[1]
    return share.item()


@cache
def needed(pairs: int, chance: float) -> float:
    """The t that chance exceeds with this probability: found by halving an interval."""
    low = 0.0
    high = 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        if tail(middle, pairs - 1) > chance:
            low = middle
        else:
            high = middle
    return high


def span(differences: Tensor, candidates: int) -> tuple[Tensor, Tensor]:
    """Mean difference (…,) of pairs (…, pairs), and how far chance may move it."""
    pairs = differences.shape[-1]
    error = differences.std(-1) / math.sqrt(pairs)  # divides by pairs − 1
    t = needed(pairs, LEVEL / candidates)
    return differences.mean(-1), t * error


def keeps(differences: Tensor, candidates: int) -> Tensor:
    """Whether a change stays: its mean is ahead by more than chance moves it (Bonferroni).

    Not Holm, who sorts the tests: here each test begins with what the ones before have kept.
    """
    mean, moved = span(differences, candidates)
    first = differences[..., :LOOK]
    ahead = first.mean(-1) > 0  # to give up early only makes the rule stricter
    return ahead & (mean > moved)


def naive(differences: Tensor, candidates: int) -> Tensor:
    """Better on average: what people do."""
    return differences.mean(-1) > 0


def noise(shape: tuple[int, ...], kind: str, rng: torch.Generator) -> Tensor:
    """Differences of a change that does nothing; `strays`: every tenth run is disturbed."""
    sides = torch.randn(2, *shape, generator=rng)
    if kind == "strays":
        disturbed = torch.rand(2, *shape, generator=rng) < 0.1
        strength = torch.rand(2, *shape, generator=rng)
        sides = sides + 4 * disturbed * strength
    return sides[0] - sides[1]


def kept_any(rule: Rule, waterfalls: int, candidates: int, pairs: int, kind: str) -> int:
    """In how many waterfalls, whose changes all do nothing, the rule keeps one or more."""
    rng = torch.Generator().manual_seed(0)
    count = 0
    parts = torch.arange(waterfalls).split(5000)
    for part in parts:
        shape = (len(part), candidates, pairs)
        differences = noise(shape, kind, rng)
        kept = rule(differences, candidates)
        count += int(kept.any(-1).sum())
    return count


def interval(hits: int, tries: int) -> tuple[float, float]:
    """Wilson's interval: the shares that go with so many hits, 95 % sure."""
    z = 1.96
    share = hits / tries
    middle = share + z**2 / (2 * tries)
    variance = share * (1 - share) / tries
    correction = (z / tries) ** 2 / 4
    width = z * math.sqrt(variance + correction)
    scale = 1 + z**2 / tries
    low = (middle - width) / scale
    high = (middle + width) / scale
    return low, high


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--waterfalls", type=int, default=20_000)
    parser.add_argument("--candidates", type=int, default=12)
    parser.add_argument("--pairs", type=int, default=6)
    args = parser.parse_args()
    sizes = (args.waterfalls, args.candidates, args.pairs)
    shares = {}
    for kind in ("normal", "strays"):
        for rule in (naive, keeps):
            hits = kept_any(rule, *sizes, kind)
            low, high = interval(hits, args.waterfalls)
            name = rule.__name__
            shares[f"{name}, {kind}"] = (low, high)
            print(f"{name:6} {kind:7} keeps something in {low:.1%} – {high:.1%}")
    report("judge", here(), shares=shares)


if __name__ == "__main__":
    main()
