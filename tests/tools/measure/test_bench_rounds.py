"""How the bench measures and judges: random turns, intervals, looks, known-equal pairs."""

import random
from math import exp

import pytest
from bench_part import fixed

from course.measure import table
from course.measure.launched.turns import made, turns
from course.measure.rounds import Part, Ratio, Rounds, measure, until_decided
from course.measure.verdicts import EQUAL, beyond, decided, interval, looks, side, verdict

# Verdicts


def test_the_interval_leaves_out_as_many_rounds_as_the_sign_test_allows() -> None:
    # Of 20 fair coins 5 heads or fewer: 2.07 %; 4 or fewer: 0.59 %; 3 or fewer: 0.13 %.
    assert [beyond(20, 0.05), beyond(20, 0.02), beyond(20, 0.01)] == [5, 4, 3]
    assert interval([*range(1, 21)], 0.05) == (6, 15)
    assert interval([*range(20, 0, -1)]) == (4, 17)
    assert interval(range(7)) is None and interval(range(8)) == (0, 7)
    assert looks() == [20, 40, 80, 160, 320]


@pytest.mark.parametrize(
    ("bounds", "aim", "said"),
    [
        ((0.93, 0.97), "≥ 0.93", "reached"),
        ((0.90, 0.929), "≥ 0.93", "missed"),
        ((0.90, 0.97), "≥ 0.93", "cannot tell"),
        ((1.01, 1.05), "≤ 1.05", "reached"),
        ((1.051, 1.1), "≤ 1.05", "missed"),
        ((1.01, 1.1), "≤ 1.05", "cannot tell"),
        ((0.99, 1.01), EQUAL, "no difference"),
        ((1.01, 1.02), EQUAL, "differs"),
        ((0.97, 0.98), EQUAL, "differs"),
        (None, "≥ 0.93", "cannot tell"),
        (None, EQUAL, "cannot tell"),
        ((0.9, 1.1), "", ""),
    ],
)
def test_a_verdict_needs_the_whole_interval(bounds, aim: str, said: str) -> None:
    assert verdict(bounds, aim) == said
    assert decided(bounds, aim) == (said in ("reached", "missed", "differs", ""))


def test_a_limit_that_is_exceeded_is_a_faulty_limit() -> None:
    assert verdict((1.01, 1.09), "≥ 0.97", "≤ 1") == "faulty limit: ≤ 1"
    assert verdict((0.99, 1.09), "≥ 0.97", "≤ 1") == "reached"
    assert verdict((0.8, 0.9), "≤ 2", "≥ 1") == "faulty limit: ≥ 1"
    assert verdict((0.8, 0.9), "", "≥ 1") == "faulty limit: ≥ 1"
    assert side((1, 1), "≤ 1") == side((1, 1), "≥ 1") == "all"


# Simulations


def noisy(rng: random.Random, ways: dict[str, float], rounds: int, shuffled: bool = True) -> dict:
    """Seconds as a busy machine gives them, which slows down and recovers, and pauses at times.

    Its pace wanders (each turn is like the one before), one turn in ten meets a pause with a heavy
    tail, and the first turn of a round is 2 % slower than the others.
    """
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    order = list(ways)
    wander = 0.0
    for _ in range(rounds):
        if shuffled:
            rng.shuffle(order)
        for way in order:
            wander = 0.95 * wander + rng.gauss(0, 0.02)
            pause = 0.05 * rng.paretovariate(1.2) if rng.random() < 0.1 else 0
            first = 1.02 if way == order[0] else 1
            seconds[way].append(ways[way] * exp(wander) * first * (1 + pause))
    return seconds


def simulated(seed: int, ratio: float, aim: str, shuffled: bool = True) -> Rounds:
    """The rounds of a part whose true ratio is known, until its aim is decided."""
    rng = random.Random(seed)

    def run(rounds: int, _: int) -> dict:
        return {"seconds": noisy(rng, {"ours": ratio, "theirs": 1.0}, rounds, shuffled)}

    rounds = Rounds(Part("simulated", 1, run, [Ratio("ours / theirs", "ours", "theirs", aim=aim)]))
    until_decided(rounds, clock=lambda: 0.0)
    return rounds


def judged(rounds: Rounds) -> str:
    (ratio,) = rounds.part.ratios
    return verdict(rounds.bounds(ratio), ratio.aim)


@pytest.mark.parametrize("seed", range(3))
def test_of_a_hundred_known_equal_pairs_at_most_ten_differ(seed: int) -> None:
    pairs = [simulated(100 * seed + number, 1.0, EQUAL) for number in range(100)]
    assert sum(judged(each) == "differs" for each in pairs) <= 10
    assert {each.number for each in pairs if judged(each) == "no difference"} == {160}


def test_a_fixed_order_would_find_differences_between_equal_things() -> None:
    pairs = [simulated(number, 1.0, EQUAL, shuffled=False) for number in range(50)]
    assert sum(judged(each) == "differs" for each in pairs) > 10


def test_looks_without_a_corrected_level_would_find_twice_as_many() -> None:
    naive = 0
    honest = 0
    for seed in range(300):
        all_rounds = noisy(random.Random(seed), {"ours": 1.0, "theirs": 1.0}, 320)
        pairs = zip(all_rounds["ours"], all_rounds["theirs"], strict=True)
        ratios = [ours / theirs for ours, theirs in pairs]
        sights = [ratios[:look] for look in looks()]
        naive += any(verdict(interval(seen, 0.05), EQUAL) == "differs" for seen in sights)
        honest += any(verdict(interval(seen), EQUAL) == "differs" for seen in sights)
    assert honest <= 0.05 * 300
    assert naive > 2 * honest and naive > 0.05 * 300


def test_what_differs_clearly_is_decided_soon_and_rightly() -> None:
    for seed in range(20):
        good = simulated(seed, 0.8, "≤ 1")
        bad = simulated(seed, 1.25, "≤ 1")
        assert [judged(good), judged(bad)] == ["reached", "missed"]
        assert good.number <= 80 and bad.number <= 80
    assert simulated(0, 0.5, "≤ 1").number == 20


# Rounds


def test_every_way_has_a_turn_in_each_round_in_an_order_that_is_drawn_anew() -> None:
    order = []
    ways = {name: lambda name=name: order.append(name) for name in "abc"}
    seconds = turns(ways, 30, seed=1, settle=2, before=lambda: order.append("|"))
    assert {name: len(each) for name, each in seconds.items()} == {"a": 30, "b": 30, "c": 30}
    called = "".join(order)
    rounds = [called[start : start + 6] for start in range(0, len(called), 6)]
    assert len(rounds) == 32
    assert all(sorted(each) == sorted("|a|b|c") for each in rounds)
    assert len(set(rounds)) == 6
    order.clear()
    turns(ways, 30, seed=1, settle=2, before=lambda: order.append("|"))
    assert "".join(order) == called  # another rank draws the same orders


def test_ways_are_made_in_an_order_that_is_drawn_anew() -> None:
    orders = set()
    for seed in range(20):
        order: list[str] = []
        makers = {name: lambda name=name, order=order: order.append(name) for name in "abc"}
        made(makers, seed)
        assert sorted(order) == ["a", "b", "c"]
        orders.add("".join(order))
    assert len(orders) > 3


def test_a_part_makes_rows_of_times_paces_bytes_and_seconds() -> None:
    part, launched = fixed(1, ours=1.0, theirs=2.0, again=2.0)
    rows = {row["row"]: row for row in measure(part).rows()}
    assert launched == [20]
    equal = "known equal, fixed: theirs twice"
    assert list(rows) == ["time", "pace", "bytes", "seconds", equal]
    assert [row["ratio"] for row in rows.values()] == [0.5, 2.0, 1.5, 1.0, 1.0]
    spans = ["interval", "interval", "count", "interval", "interval"]
    assert [row["span"] for row in rows.values()] == spans
    assert rows["time"]["seconds"] == rows["pace"]["seconds"] == [1.0, 2.0]
    assert rows["seconds"]["unit"] == "s"
    said = [table.outcome(row) for row in rows.values()]
    assert said == ["reached", "reached", "reached", "", "no difference"]


def test_too_few_rounds_have_no_interval() -> None:
    part, _ = fixed(1, ours=1.0, theirs=2.0, again=2.0)
    rounds = Rounds(part, batch=2)
    rounds.more()
    row = rounds.row(part.ratios[0])
    assert row["span"] == "range" and table.outcome(row) == "cannot tell"


def test_rounds_end_with_the_verdict_or_with_the_minutes() -> None:
    def undecided(minutes: float) -> Rounds:
        part = Part("undecided", minutes, lambda *_: next(found), [time_row])
        rounds = Rounds(part)
        until_decided(rounds, clock=lambda: 10.0 * len(rounds.seconds.get("a", [])))
        return rounds

    time_row = Ratio("time", "a", "b", aim="≤ 1")
    both = {"a": [0.9, 1.1] * 10, "b": [1.0] * 20}
    found = iter([{"seconds": both}] * 99)
    assert undecided(1000).number == 160  # the last look but one
    # A launch takes 200 s: after 60 rounds and 600 s no other one fits into 11 minutes.
    assert undecided(11).number == 60


def test_a_pair_that_differed_at_one_look_has_differed() -> None:
    """A part may end at any look, so what a later look says of the pair is no excuse."""
    rounds = Rounds(fixed(1, ours=1.0, theirs=2.0, again=2.0)[0])
    pair = Ratio("pair", "0", "1", aim="= 1")
    rounds.seconds = {"0": [1.1] * 20 + [0.9, 1.1] * 30, "1": [1.0] * 80}
    assert rounds.differed(pair)
    rounds.seconds["0"] = [0.9, 1.1] * 40
    assert not rounds.differed(pair)


def test_a_pair_that_differs_when_the_minutes_are_over_has_differed() -> None:
    """They were over after 60 rounds, between two looks; the first two looks saw nothing."""
    rounds = Rounds(fixed(1, ours=1.0, theirs=2.0, again=2.0)[0])
    rounds.seconds = {"0": [0.9, 1.1] * 15 + [1.1] * 30, "1": [1.0] * 60}
    assert rounds.differed(Ratio("pair", "0", "1", aim="= 1"))


def test_a_known_equal_pair_that_differs_is_told_and_doubles_the_rounds() -> None:
    part, launched = fixed(1, ours=1.0, theirs=2.0, again=2.1)
    told: list[str] = []
    rounds = measure(part, tell=told.append)
    assert launched == [20, 20] and rounds.number == 40
    (line,) = told
    assert line.startswith("fixed: 20 rounds of a known-equal pair differ (1.050 – 1.050)")
