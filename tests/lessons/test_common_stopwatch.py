"""How the course compares times (stopwatch.py), on a clock that only the test moves."""

import random
from collections import Counter

import pytest
import torch
from ranks import PROGRAMS, launch

import stopwatch
from stopwatch import in_turns, interval, seconds, verdict

CPU = torch.device("cpu")


class Clock:
    """Stands still while nobody turns it."""

    def __init__(self):
        self.now = 1000.0

    def turn(self, duration: float) -> None:
        self.now += duration


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: clock.now)
    return clock


def test_ways_take_turns_and_every_other_round_goes_backwards():
    calls = []
    ways = {name: lambda name=name: calls.append(name) for name in "abc"}
    times = in_turns(ways, rounds=3, device=CPU)
    assert "".join(calls) == "abc" + "cba" + "abc" + "cba", "one round to settle, then three"
    assert list(times) == ["a", "b", "c"]
    assert [len(own) for own in times.values()] == [3, 3, 3]


@pytest.mark.parametrize(("settle", "kept"), [(0, [1, 2, 3, 4]), (1, [2, 3, 4]), (3, [4])])
def test_rounds_that_settle_do_not_count(clock, settle, kept):
    durations = {"up": [1, 2, 3, 4], "tenfold": [10, 20, 30, 40]}
    left = {name: list(own) for name, own in durations.items()}
    ways = {name: lambda own=own: clock.turn(own.pop(0)) for name, own in left.items()}
    times = in_turns(ways, rounds=len(kept), device=CPU, settle=settle)
    assert times == {"up": kept, "tenfold": [10 * each for each in kept]}


def test_what_comes_before_a_way_is_not_in_its_time(clock):
    calls = []

    def before() -> None:
        calls.append("before")
        clock.turn(100)

    def way() -> None:
        calls.append("way")
        clock.turn(1)

    assert in_turns({"way": way}, rounds=2, device=CPU, settle=1, before=before) == {"way": [1, 1]}
    assert calls == ["before", "way"] * 3


def test_seconds_include_the_work_that_is_left_to_the_device(clock, monkeypatch):
    """Waits before, so that no earlier work counts, and after, so that all of this does."""
    waiting = [100.0]  # seconds of work that a GPU has yet to do

    class Module:
        @staticmethod
        def synchronize() -> None:
            while waiting:
                clock.turn(waiting.pop())

    monkeypatch.setattr(stopwatch.torch, "get_device_module", lambda device: Module)
    assert seconds(lambda: waiting.append(7.0), torch.device("cuda:0")) == 7


def test_the_slowest_rank_counts_on_every_rank(tmp_path):
    reports = launch(tmp_path, 2, str(PROGRAMS / "slowest.py")).reports("slowest", 2)
    for report in reports:
        assert report["falling"] == 0.3
        assert report["rising"] == 0.2


@pytest.mark.parametrize(
    ("rounds", "bounds"),
    [(4, None), (5, (1, 5)), (7, (1, 7)), (8, (2, 7)), (13, (4, 10))],
)
def test_the_interval_leaves_out_as_many_rounds_as_coins_allow(rounds, bounds):
    assert interval(range(rounds, 0, -1)) == bounds


def test_equal_ways_are_judged_equal_nine_times_in_ten():
    chance = random.Random(0)
    found = Counter()
    for _ in range(2000):
        own = [chance.lognormvariate(0, 0.3) for _ in range(9)]
        other = [chance.lognormvariate(0, 0.3) for _ in range(9)]
        found[verdict(own, other).rpartition(": ")[2]] += 1
    assert found["no clear difference"] > 0.9 * 2000
    assert min(found["faster"], found["slower"]) > 10, "about as often wrong in either way"


@pytest.mark.parametrize(
    ("own", "other", "words"),
    [
        ([1, 2, 3, 4, 5], [2, 4, 6, 8, 10], "0.50 of the time (0.50 – 0.50): faster"),
        ([2, 4, 6, 8, 10], [1, 2, 3, 4, 5], "2.00 of the time (2.00 – 2.00): slower"),
        ([1, 1, 1, 1, 3], [2, 2, 2, 2, 2], "0.50 of the time (0.50 – 1.50): no clear difference"),
        ([1, 1], [2, 2], "0.50 of the time: too few rounds to tell"),
    ],
)
def test_a_verdict_pairs_the_rounds(own, other, words):
    assert verdict(own, other) == words


def test_a_verdict_needs_both_sides_of_each_round():
    with pytest.raises(ValueError, match="shorter"):
        verdict([1.0, 2.0], [1.0])
