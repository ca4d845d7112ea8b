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
    angle = math.atan(t / math.sqrt(freedom))
    whole = torch.linspace(-math.pi / 2, math.pi / 2, 20_001, dtype=torch.float64)
    above = torch.linspace(angle, math.pi / 2, 20_001, dtype=torch.float64)
    areas = [torch.trapezoid(line.cos() ** (freedom - 1), line) for line in (above, whole)]
    return (areas[0] / areas[1]).item()


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
    return differences.mean(-1), needed(pairs, LEVEL / candidates) * error


def keeps(differences: Tensor, candidates: int) -> Tensor:
    """Whether a change stays: its mean is ahead by more than chance moves it (Bonferroni).

    Not Holm, who sorts the tests: here each test begins with what the ones before have kept.
    """
    mean, moved = span(differences, candidates)
    ahead = differences[..., :LOOK].mean(-1) > 0  # to give up early only makes the rule stricter
    return ahead & (mean > moved)


def naive(differences: Tensor, candidates: int) -> Tensor:
    """Better on average: what people do."""
    return differences.mean(-1) > 0


def noise(shape: tuple[int, ...], kind: str, rng: torch.Generator) -> Tensor:
    """Differences of a change that does nothing; `strays`: every tenth run is disturbed."""
    sides = torch.randn(2, *shape, generator=rng)
    if kind == "strays":
        disturbed = torch.rand(2, *shape, generator=rng) < 0.1
        sides = sides + 4 * disturbed * torch.rand(2, *shape, generator=rng)
    return sides[0] - sides[1]


def kept_any(rule: Rule, waterfalls: int, candidates: int, pairs: int, kind: str) -> int:
    """In how many waterfalls, whose changes all do nothing, the rule keeps one or more."""
    rng = torch.Generator().manual_seed(0)
    count = 0
    for part in torch.arange(waterfalls).split(5000):
        differences = noise((len(part), candidates, pairs), kind, rng)
        count += int(rule(differences, candidates).any(-1).sum())
    return count


def interval(hits: int, tries: int) -> tuple[float, float]:
    """Wilson's interval: the shares that go with so many hits, 95 % sure."""
    z = 1.96
    share = hits / tries
    middle = share + z**2 / (2 * tries)
    width = z * math.sqrt(share * (1 - share) / tries + (z / tries) ** 2 / 4)
    return (middle - width) / (1 + z**2 / tries), (middle + width) / (1 + z**2 / tries)


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--waterfalls", type=int, default=20_000)
    parser.add_argument("--candidates", type=int, default=12)
    parser.add_argument("--pairs", type=int, default=6)
    args = parser.parse_args()
    shares = {}
    for kind in ("normal", "strays"):
        for rule in (naive, keeps):
            sizes = (args.waterfalls, args.candidates, args.pairs)
            low, high = interval(kept_any(rule, *sizes, kind), args.waterfalls)
            shares[f"{rule.__name__}, {kind}"] = (low, high)
            print(f"{rule.__name__:6} {kind:7} keeps something in {low:.1%} – {high:.1%}")
    report("judge", here(), shares=shares)


if __name__ == "__main__":
    main()
