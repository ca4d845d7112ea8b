"""A part of the bench: rounds go on until each of its aims is decided, or its time is over."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from course.measure.launched.turns import Seconds
from course.measure.verdicts import EQUAL, FIRST, Interval, decided, differs, interval, looks

Row = dict[str, object]


@dataclass(frozen=True)
class Ratio:
    """A row to be: which of a part's ways is divided by which."""

    name: str
    ours: str  # a way
    theirs: str = ""  # another one; with none the row has seconds, and no ratio
    kind: str = "time"  # ours / theirs; "pace": theirs / ours; "bytes": counted, not timed
    aim: str = ""  # as "≥ 1.3"
    limit: str = ""  # what no ratio can be beyond, as "≤ 1"
    note: str = ""


@dataclass(frozen=True)
class Part:
    """Ways that are measured in turns, and the rows that are made of their seconds."""

    name: str
    minutes: float  # at most, unless the known-equal pair differs
    # rounds, seed → {"seconds": Seconds, "bytes": {way: number}}; copied=(way, number): only these
    run: Callable[..., dict]
    ratios: list[Ratio]
    equal: tuple[str, str] = ("", "")  # two ways that do the same

    def known_equal(self) -> Ratio:
        """The row of the two ways that do the same."""
        again, way = self.equal
        return Ratio(f"known equal, {self.name}: {way} twice", again, way, aim=EQUAL)

    def only_pairs(self, number: int) -> "Part":
        """So many known-equal pairs side by side: copies of one way, each of them in one pair."""
        run = partial(self.run, copied=(self.equal[1], 2 * number))
        pairs = []
        for pair in range(number):
            pairs.append(Ratio(f"pair {pair}", str(2 * pair), str(2 * pair + 1), aim=EQUAL))
        return Part(self.name, self.minutes, run, pairs)


@dataclass
class Rounds:
    """The rounds of one part so far."""

    part: Part
    batch: int = FIRST  # rounds of one launch
    seconds: Seconds = field(default_factory=dict)
    facts: dict = field(default_factory=dict)  # all that the last launch said

    @property
    def number(self) -> int:
        return min(map(len, self.seconds.values()), default=0)

    def more(self) -> None:
        """Launch the part's program once, which makes new objects in new places of the memory."""
        self.facts = self.part.run(self.batch, self.number)
        for way, seconds in self.facts["seconds"].items():
            self.seconds.setdefault(way, []).extend(seconds)

    def measured(self, ratio: Ratio) -> bool:
        """Whether there are numbers for it: a machine without g++ lacks some ways."""
        return {ratio.ours, ratio.theirs} - {""} <= set(self.seconds)

    def ratios(self, ratio: Ratio) -> list[float]:
        """Round by round."""
        if not ratio.theirs:
            return self.seconds[ratio.ours]
        pairs = zip(self.seconds[ratio.ours], self.seconds[ratio.theirs], strict=True)
        if ratio.kind == "pace":
            return [theirs / ours for ours, theirs in pairs]
        return [ours / theirs for ours, theirs in pairs]

    def bounds(self, ratio: Ratio) -> Interval | None:
        return interval(self.ratios(ratio))

    def differed(self, ratio: Ratio) -> bool:
        """Whether a known-equal pair seemed to differ at any look, or when the minutes were over.

        A part may end at each of them, with what its rounds say by then.
        """
        ratios = self.ratios(ratio)
        ends = {look for look in looks(self.batch) if look < self.number} | {self.number}
        return any(differs(interval(ratios[:end])) for end in ends)

    def decided(self) -> bool:
        """Whether each aim has a verdict."""
        timed = [each for each in self.part.ratios if each.kind != "bytes" and self.measured(each)]
        return all(decided(self.bounds(each), each.aim, each.limit) for each in timed)

    def suspicious(self) -> bool:
        """Whether two ways that do the same seem to differ."""
        return bool(self.part.equal[0]) and differs(self.bounds(self.part.known_equal()))

    def row(self, ratio: Ratio) -> Row:
        """One line of the table: the median with its interval, or with its range."""
        counted = ratio.kind == "bytes"
        if counted:
            numbers = self.facts["bytes"]
            ratios = [numbers[ratio.ours] / numbers[ratio.theirs]]
        else:
            ratios = self.ratios(ratio)
        bounds = None if counted else self.bounds(ratio)
        span = "interval" if bounds else "range"
        low, high = bounds or (min(ratios), max(ratios))
        names = [ratio.ours, ratio.theirs] if ratio.theirs else []
        return {
            "row": ratio.name,
            "ratio": median(ratios),
            "low": low,
            "high": high,
            "span": "count" if counted else span,
            "rounds": len(ratios),
            "seconds": [] if counted else [median(self.seconds[name]) for name in names],
            "unit": "" if ratio.theirs else "s",
            "aim": ratio.aim,
            "limit": ratio.limit,
            "note": ratio.note,
        }

    def rows(self) -> list[Row]:
        """The rows of the part, its known-equal pair last."""
        rows = [self.row(ratio) for ratio in self.part.ratios if self.measured(ratio)]
        if self.part.equal[0]:
            rows.append(self.row(self.part.known_equal()))
        return rows


def until_decided(rounds: Rounds, clock: Callable[[], float] = time.monotonic) -> None:
    """Rounds until each aim is decided. Another launch must fit into the part's minutes."""
    begin = clock()
    for look in looks(rounds.batch)[:-1]:
        while rounds.number < look:
            rounds.more()
            took = clock() - begin
            launches = rounds.number / rounds.batch
            if took + took / launches > 60 * rounds.part.minutes:
                return
        if rounds.decided():
            return


def measure(part: Part, first: int = FIRST, tell: Callable[[str], object] = print) -> Rounds:
    """All rounds of a part; twice as many where its known-equal pair differs."""
    rounds = Rounds(part, first)
    until_decided(rounds)
    if rounds.suspicious():
        low, high = rounds.bounds(part.known_equal())
        found = f"{rounds.number} rounds of a known-equal pair differ ({low:.3f} – {high:.3f})"
        tell(f"{part.name}: {found}; so it gets as many rounds again")
        for _ in range(rounds.number // first):
            rounds.more()
    return rounds
