"""What the rounds of a comparison say: an interval of the median ratio, and a verdict on an aim.

The interval is the sign test's, from the k-th smallest ratio to the k-th largest. It asks nothing
of the distribution, so a pause of the machine, which makes single ratios huge, does no harm. And
since each round draws anew who goes first, two equal sides have the same chance to be the slower
one of a round, whatever the machine did in the rounds before. A bootstrap would need rounds that do
not depend on each other, and those of one machine do.

Who looks again and again, and stops when the answer pleases, finds differences between equal
things. So there are five looks, after 20, 40, 80, 160 and 320 rounds, and each has a fifth of the
5 %: wherever one stops, the interval holds the true median in 95 % of all runs or more. That is
said of each row by itself. Of many rows with an aim, up to one in twenty may be judged wrongly.
"""

from collections.abc import Sequence
from itertools import accumulate
from math import comb

CHANCE = 0.05  # that one of all intervals of a row, at whichever look, misses the true median
LOOKS = 5
FIRST = 20  # rounds at the first look; each later look has twice as many
EQUAL = "= 1"  # the aim of a known-equal pair

Interval = tuple[float, float]


def looks(first: int = FIRST) -> list[int]:
    """After how many rounds one looks. The last look is only for parts whose rounds are doubled."""
    return [first * 2**number for number in range(LOOKS)]


def beyond(rounds: int, chance: float) -> int:
    """How many of the smallest ratios lie outside of the interval, and as many of the largest.

    -1 where even from the smallest to the largest ratio the interval would miss too often.
    """
    ways = accumulate(comb(rounds, below) for below in range(rounds + 1))
    rare = [heads for heads in ways if 2 * heads / 2**rounds <= chance]
    return len(rare) - 1


def interval(ratios: Sequence[float], chance: float = CHANCE / LOOKS) -> Interval | None:
    """Where the median of all ratios is, or None if there are too few rounds (8 are enough)."""
    ordered = sorted(ratios)
    outside = beyond(len(ordered), chance)
    if outside < 0:
        return None
    return ordered[outside], ordered[-1 - outside]


def side(bounds: Interval, border: str) -> str:
    """Which part of an interval fulfils a border as "≥ 0.9" or "≤ 1.05": "all", "none", "some"."""
    sign, number = border.split()
    wanted = float(number)
    low, high = bounds
    if sign == "≤":  # the same question with everything upside down
        low, high = -high, -low
        wanted = -wanted
    if low >= wanted:
        return "all"
    return "none" if high < wanted else "some"


def differs(bounds: Interval | None) -> bool:
    """Whether an interval of a known-equal pair leaves out 1, as it should not."""
    return bounds is not None and not bounds[0] <= 1 <= bounds[1]


def verdict(bounds: Interval | None, aim: str, limit: str = "") -> str:
    """What an interval says of an aim: "reached", "missed" or "cannot tell"; "" without an aim.

    `limit`: what no ratio can be beyond, as "≤ 1" of a pace that was divided by the pace without
    the work. If the whole interval is beyond it, the limit is none, and nothing else counts.
    """
    if bounds and limit and side(bounds, limit) == "none":
        return f"faulty limit: {limit}"
    if not aim:
        return ""
    if bounds is None:
        return "cannot tell"
    if aim == EQUAL:
        return "differs" if differs(bounds) else "no difference"
    return {"all": "reached", "none": "missed", "some": "cannot tell"}[side(bounds, aim)]


def decided(bounds: Interval | None, aim: str, limit: str = "") -> bool:
    """Whether more rounds are not needed: there is no aim, or a verdict on it."""
    return verdict(bounds, aim, limit) not in ("cannot tell", "no difference")
