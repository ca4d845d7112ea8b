"""How two things are compared here: in turns, pair by pair, and beside two that are equal.

In a round each way has one turn, and the order is drawn anew. A round gives one ratio for each pair
of ways; what counts is the median of all rounds, and its interval is the sign test's, from the k-th
smallest ratio to the k-th largest. It asks nothing of the distribution, so a pause of the machine,
which makes single ratios huge, does no harm. And since each round draws who goes first, two equal
sides have the same chance to be the slower one, whatever the machine did in the rounds before. A
bootstrap would need rounds that do not depend on each other, and those of one machine do.

Rounds go on for as many minutes as a part has, whatever they say: who stops when the answer pleases
finds differences between equal things. Only where the known-equal pair seems to differ there is a
second look, after twice the minutes. So each look has half of the 5 %. That is said of each row by
itself: of many rows with an aim, up to one in twenty may be judged wrongly.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import comb
from statistics import median

CHANCE = 0.05 / 2  # that the interval misses the true median, at each of at most two looks
ROUNDS = 20  # of one launch
EQUAL = "= 1"  # the aim of a known-equal pair

Interval = tuple[float, float]
Seconds = dict[str, list[float]]  # of each way, round by round
Row = dict[str, object]


# ---- turns


def orders(names: Sequence[str], rounds: int, seed: int) -> Iterator[list[str]]:
    """For each round all names, in an order that is drawn anew. One seed draws the same orders."""
    chance = random.Random(seed)
    for _ in range(rounds):
        yield chance.sample(names, len(names))


def turns(
    ways: dict[str, Callable[[], object]],
    rounds: int,
    seed: int,
    settle: int = 0,
    before: Callable[[], object] = lambda: None,
) -> Seconds:
    """Seconds of each way in each round. Ranks that are given one seed have the same orders.

    The first `settle` rounds do not count: things are warming up. `before` is called ahead of each
    turn, outside of its time.
    """
    seconds: Seconds = {name: [] for name in ways}
    for number, order in enumerate(orders(list(ways), settle + rounds, seed)):
        for name in order:
            before()
            begin = time.perf_counter()
            ways[name]()
            took = time.perf_counter() - begin
            if number >= settle:
                seconds[name].append(took)
    return seconds


# ---- the interval, and the verdict on an aim


def interval(ratios: Sequence[float], chance: float = CHANCE) -> Interval | None:
    """Where the median of all ratios is, or None if there are too few rounds (7 are enough)."""
    ordered = sorted(ratios)
    rounds = len(ordered)
    # How likely 0, 1, 2, … or fewer of so many fair coins show heads; as many lie at the other end.
    ways = accumulate(comb(rounds, heads) for heads in range(rounds + 1))
    outside = sum(2 * each / 2**rounds <= chance for each in ways) - 1
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
        return "no difference" if bounds[0] <= 1 <= bounds[1] else "differs"
    return {"all": "reached", "none": "missed", "some": "cannot tell"}[side(bounds, aim)]


# ---- a part: ways that are measured in turns, and the rows that are made of their seconds


@dataclass(frozen=True)
class Ratio:
    """A row to be: which of a part's ways is divided by which."""

    name: str
    ours: str  # a way
    theirs: str
    aim: str = ""  # as "≥ 1.3"
    limit: str = ""  # what no ratio can be beyond, as "≤ 1"
    note: str = ""
    time: bool = False  # the ratio of the times, and not of the paces

    def row(self, seconds: Seconds) -> Row:
        """The median of all rounds with its interval; with their range, where they are too few."""
        ours = seconds[self.ours]
        theirs = seconds[self.theirs]
        pairs = zip(ours, theirs, strict=True)
        ratios = [our / their if self.time else their / our for our, their in pairs]
        bounds = interval(ratios)
        low, high = bounds or (min(ratios), max(ratios))
        return {
            "row": self.name,
            "ratio": median(ratios),
            "low": low,
            "high": high,
            "span": "interval" if bounds else "range",
            "rounds": len(ratios),
            "seconds": [median(ours), median(theirs)],
            "aim": self.aim,
            "limit": self.limit,
            "note": self.note,
        }


@dataclass(frozen=True)
class Part:
    name: str
    minutes: float  # as many again, if the known-equal pair differs
    run: Callable[[int, int], Seconds]  # rounds, seed → seconds, by one launch
    ratios: list[Ratio]
    equal: str  # a way; "again" is the same once more

    def rows(self, seconds: Seconds) -> list[Row]:
        """The rows of the part, its known-equal pair last. A machine without g++ lacks some."""
        again = f"{self.equal} again"
        name = f"known equal, {self.name}: {self.equal} twice"
        pair = Ratio(name, again, self.equal, EQUAL, time=True)
        ratios = [*self.ratios, pair]
        return [each.row(seconds) for each in ratios if {each.ours, each.theirs} <= set(seconds)]


def outcome(row: Row) -> str:
    """The verdict on a row's aim. A range is no interval."""
    bounds = (row["low"], row["high"]) if row["span"] == "interval" else None
    return verdict(bounds, row["aim"], row["limit"])


def measure(
    part: Part,
    rounds: int = ROUNDS,
    tell: Callable[[str], object] = print,
    clock: Callable[[], float] = time.monotonic,
) -> list[Row]:
    """As many launches as fit into a part's minutes; as many again where equal things differ.

    Each launch makes new objects in new places of the memory.
    """
    seconds: Seconds = {}
    begin = clock()
    launches = 0
    for look in (1, 2):
        while True:
            for way, taken in part.run(rounds, launches).items():
                seconds.setdefault(way, []).extend(taken)
            launches += 1
            took = clock() - begin
            if took + took / launches > look * 60 * part.minutes:
                break
        rows = part.rows(seconds)
        equal = rows[-1]
        if outcome(equal) != "differs":
            break
        if look == 1:
            span = f"{equal['low']:.3f} – {equal['high']:.3f}"
            tell(f"{equal['row']} differs ({span}, {equal['rounds']} rounds): as long again")
    return rows
