"""How two things are compared: random turns, the sign test's interval, known-equal pairs."""

import random
from collections.abc import Callable
from math import exp

import pytest

from course.measure.pairs import (
    CHANCE,
    EQUAL,
    Part,
    Ratio,
    interval,
    measure,
    orders,
    outcome,
    side,
    turns,
    verdict,
)

# ---- turns


def test_every_way_has_a_turn_in_each_round_in_an_order_that_is_drawn_anew() -> None:
    called: list[str] = []
    ways = {name: lambda name=name: called.append(name) for name in "abc"}
    seconds = turns(ways, 30, seed=1, settle=2, before=lambda: called.append("|"))
    assert {name: len(each) for name, each in seconds.items()} == {"a": 30, "b": 30, "c": 30}
    rounds = ["".join(called[start : start + 6]) for start in range(0, len(called), 6)]
    assert len(rounds) == 32
    assert all(sorted(each) == sorted("|a|b|c") for each in rounds)
    assert len(set(rounds)) == 6
    again = ["".join(f"|{name}" for name in order) for order in orders("abc", 32, seed=1)]
    assert again == rounds  # another rank draws the same orders
    assert [*orders("abc", 32, seed=2)] != [*orders("abc", 32, seed=1)]


# ---- the interval, and the verdict


def test_the_interval_leaves_out_as_many_rounds_as_the_sign_test_allows() -> None:
    # Of 20 fair coins 5 heads or fewer: 2.07 %; 4 or fewer: 0.59 %; 3 or fewer: 0.13 %.
    assert interval([*range(1, 21)], 0.05) == (6, 15)
    assert interval([*range(20, 0, -1)], 0.02) == (5, 16)
    assert interval([*range(1, 21)], 0.01) == (4, 17)
    assert interval(range(6)) is None and interval(range(7)) == (0, 6)


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
        (None, EQUAL, "cannot tell"),
        ((0.9, 1.1), "", ""),
    ],
)
def test_a_verdict_needs_the_whole_interval(bounds, aim: str, said: str) -> None:
    assert verdict(bounds, aim) == said


def test_a_limit_that_is_exceeded_is_a_faulty_limit() -> None:
    assert verdict((1.01, 1.09), "≥ 0.97", "≤ 1") == "faulty limit: ≤ 1"
    assert verdict((0.99, 1.09), "≥ 0.97", "≤ 1") == "reached"
    assert verdict((0.8, 0.9), "≤ 2", "≥ 1") == "faulty limit: ≥ 1"
    assert verdict((0.8, 0.9), "", "≥ 1") == "faulty limit: ≥ 1"
    assert side((1, 1), "≤ 1") == side((1, 1), "≥ 1") == "all"


def noisy(seed: int, rounds: int, ours: float = 1.0, shuffled: bool = True) -> list[float]:
    """Ratios as a busy machine gives them, which slows down and recovers, and pauses at times.

    Its pace wanders (each turn is like the one before), one turn in ten meets a pause with a heavy
    tail, and the first turn of a round is 2 % slower than the other. `ours`: the true ratio.
    """
    rng = random.Random(seed)
    drawn = orders(["ours", "theirs"], rounds, seed) if shuffled else [["ours", "theirs"]] * rounds
    ratios = []
    wander = 0.0
    for order in drawn:
        seconds = {"ours": ours, "theirs": 1.0}
        for way in order:
            wander = 0.95 * wander + rng.gauss(0, 0.02)
            pause = 0.05 * rng.paretovariate(1.2) if rng.random() < 0.1 else 0
            first = 1.02 if way == order[0] else 1
            seconds[way] *= exp(wander) * first * (1 + pause)
        ratios.append(seconds["ours"] / seconds["theirs"])
    return ratios


def differs(ratios: list[float], chance: float = CHANCE) -> bool:
    return verdict(interval(ratios, chance), EQUAL) == "differs"


def test_of_equal_pairs_few_differ_at_either_of_two_looks_and_many_where_one_looks_on() -> None:
    honest = 0
    curious = 0
    for seed in range(300):
        ratios = noisy(seed, 320)
        honest += differs(ratios[:160]) or differs(ratios)
        curious += any(differs(ratios[:look], 0.05) for look in range(20, 321, 20))
    assert honest <= 0.05 * 300
    assert curious > 3 * 0.05 * 300


def test_a_fixed_order_would_find_differences_between_equal_things() -> None:
    assert sum(differs(noisy(seed, 160, shuffled=False)) for seed in range(50)) > 10


def test_what_differs_clearly_is_decided_rightly() -> None:
    for seed in range(20):
        assert verdict(interval(noisy(seed, 80, 0.8)), "≤ 1") == "reached"
        assert verdict(interval(noisy(seed, 80, 1.25)), "≤ 1") == "missed"


# ---- parts


def fixed(minutes: float, **ways: float) -> tuple[Part, Callable[[], float], list[int]]:
    """A part whose ways always take these seconds, its clock, and the rounds of its launches.

    A launch takes a minute.
    """
    launched: list[int] = []

    def run(rounds: int, seed: int) -> dict:
        assert seed == len(launched)  # each launch draws orders of its own
        launched.append(rounds)
        return {way.replace("_", " "): [taken] * rounds for way, taken in ways.items()}

    ratios = [
        Ratio("time", "ours", "theirs", "≤ 0.5", time=True),
        Ratio("pace", "ours", "theirs", "≥ 2"),
        Ratio("not measured", "C++", "theirs", "≤ 1"),
    ]
    part = Part("fixed", minutes, run, ratios, "theirs")
    return part, lambda: 60.0 * len(launched), launched


def test_a_part_makes_rows_of_times_and_paces_and_of_its_known_equal_pair() -> None:
    part, clock, launched = fixed(1, ours=1.0, theirs=2.0, theirs_again=2.0)
    rows = {row["row"]: row for row in measure(part, clock=clock)}
    assert launched == [20]
    assert list(rows) == ["time", "pace", "known equal, fixed: theirs twice"]
    assert [row["ratio"] for row in rows.values()] == [0.5, 2.0, 1.0]
    assert rows["time"]["seconds"] == rows["pace"]["seconds"] == [1.0, 2.0]
    assert {(row["span"], row["rounds"]) for row in rows.values()} == {("interval", 20)}
    assert [outcome(row) for row in rows.values()] == ["reached", "reached", "no difference"]


def test_too_few_rounds_have_no_interval_and_no_verdict() -> None:
    part, clock, launched = fixed(0, ours=1.0, theirs=2.0, theirs_again=2.1)
    rows = measure(part, rounds=2, clock=clock)
    assert launched == [2]
    assert {row["span"] for row in rows} == {"range"}
    assert {outcome(row) for row in rows} == {"cannot tell"}


def test_launches_go_on_as_long_as_another_one_fits_into_the_minutes() -> None:
    part, clock, launched = fixed(3.5, ours=1.0, theirs=2.0, theirs_again=2.0)
    rows = measure(part, clock=clock)
    assert launched == [20] * 3 and {row["rounds"] for row in rows} == {60}


def test_a_known_equal_pair_that_differs_is_told_and_doubles_the_minutes() -> None:
    part, clock, launched = fixed(1.5, ours=1.0, theirs=2.0, theirs_again=2.1)
    told: list[str] = []
    *_, equal = measure(part, tell=told.append, clock=clock)
    assert launched == [20] * 3
    assert outcome(equal) == "differs"
    said = "known equal, fixed: theirs twice differs (1.050 – 1.050, 20 rounds): as long again"
    assert told == [said]
