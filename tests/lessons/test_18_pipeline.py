"""Lesson 18 where its notebook does not look.

Three ranks whose stages are unequal, clocks that jump, orders that wait for each other, and the
bubble of any number of ranks and micro-batches.
"""

import pytest
import torch
from ranks import launch

import dials
from course import rooms
from dials import Clock
from pipeline import order
from timetable import idle, timetable

SIZES = [(ranks, parts) for ranks in (1, 2, 3, 5) for parts in (1, 2, 3, 8)]


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> list[dict]:
    """What three ranks reported of pipeline.py."""
    folder = tmp_path_factory.mktemp("three")
    options = ["--parts", "2", "6", "--rounds", "2", "--rows", "24"]
    return launch(folder, 3, str(rooms.program("pipeline")), *options).reports("pipeline", 3)


@pytest.fixture(scope="module")
def three(reports) -> list[tuple[dict, ...]]:
    """Each run: what every rank reported of it."""
    return list(zip(*[report["runs"] for report in reports], strict=True))


def test_three_ranks_get_the_gradients_of_one_process(reports, three) -> None:
    assert [run[0]["parts"] for run in three] == [2, 2, 6, 6]
    for run in three:
        assert abs(run[2]["loss"] / reports[2]["loss"] - 1) <= 1e-12
        assert max(own["gap"] for own in run) <= 1e-12


def test_the_bubble_is_the_formula_s(three) -> None:
    for run in three:
        busy = sum(own["busy"][0] for own in run)
        end = max(own["now"][0] for own in run)
        assert end == 3 * (run[0]["parts"] + 2)
        assert 1 - busy / (3 * end) == pytest.approx(2 / (run[0]["parts"] + 2), abs=1e-12)


def test_1f1b_keeps_as_many_alive_as_there_are_ranks_left(three) -> None:
    alive = [[own["most"] for own in run] for run in three]
    assert alive == [[2, 2, 2], [2, 2, 1], [6, 6, 6], [3, 2, 1]]


def test_a_clock_counts_work_and_jumps_only_forward(monkeypatch) -> None:
    times = iter([0.0, 5.0, 5.0, 6.0, 6.0, 9.0])
    monkeypatch.setattr(dials.time, "thread_time", lambda: next(times))
    shortest: dict[str, float] = {}
    clock = Clock(shortest)
    for action in [("F", 0), ("F", 1), ("B", 0)]:
        assert clock.run(action, torch.add, torch.ones(1), 1).item() == 2
    assert clock.now.tolist() == [4, 5 + 1 + 3]  # 1 + 1 + 2; a later F does not lengthen anything
    assert clock.busy.tolist() == clock.now.tolist()
    assert shortest == {"F": 1, "B": 3}
    assert clock.spans[1] == ("F", 1, [1, 5], [2, 6])


def orders(schedule: str, ranks: int, parts: int) -> list[list[tuple[int, str, int]]]:
    """Each rank's order, with the rank as the number of its stage."""
    all_orders = []
    for rank in range(ranks):
        actions = order(schedule, rank, ranks, parts)
        all_orders.append([(rank, kind, i) for kind, i in actions])
    return all_orders


@pytest.mark.parametrize(("ranks", "parts"), SIZES)
@pytest.mark.parametrize("schedule", ["GPipe", "1F1B"])
def test_any_number_of_ranks_and_micro_batches(schedule: str, ranks: int, parts: int) -> None:
    wanted = [(kind, i) for kind in "BF" for i in range(parts)]
    for rank in range(ranks):
        assert sorted(order(schedule, rank, ranks, parts)) == wanted
    spans = timetable(orders(schedule, ranks, parts), [1] * ranks)
    assert idle(spans) == pytest.approx((ranks - 1) / (parts + ranks - 1), abs=1e-12)


def test_the_slowest_stage_decides() -> None:
    spans = timetable(orders("GPipe", 2, 4), [1, 2])
    assert max(end for own in spans for _, _, end in own) == 4 * (2 + 4) + (1 + 2)
    assert idle(spans) == pytest.approx(1 - 4 * 3 * (1 + 2) / (2 * 27))


def test_orders_that_wait_for_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="wait for each other"):
        timetable([[(0, "B", 0), (0, "F", 0)], [(1, "F", 0), (1, "B", 0)]], [1, 1])
