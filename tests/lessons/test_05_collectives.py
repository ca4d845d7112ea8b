"""Lesson 05 where its notebook does not look.

Its programs on three ranks, and how a child process may end.
"""

import os
import time

import pytest
import torch
from ranks import PROGRAMS, SEVERAL, launch
from torch import nn

from child import outcome
from course import rooms


@pytest.fixture(scope="module")
def three(tmp_path_factory) -> list[list[dict]]:
    """What each rank reported in the ring, in our own DDP, and with averaged gradients."""
    folder = tmp_path_factory.mktemp("three")
    ended = launch(folder, 3, SEVERAL, "rings --elements 1001", "ownddp", "average")
    return [ended.reports(str(number), 3) for number in range(3)]


def test_the_ring_counts_the_bytes_of_unequal_chunks(three):
    """334 + 334 + 333 numbers of four bytes.

    In four steps a rank sends each chunk once, and its own again.
    """
    rings = [rank["rings"] for rank in three[0]]
    sent = [of_rank["3"]["sent"] for of_rank in rings]
    assert sent == [4 * (1001 + own) for own in (334, 334, 333)]
    assert all(of_rank["3"]["right"] for of_rank in rings)
    assert [sorted(of_rank) for of_rank in rings] == [["1", "2", "3"], ["2", "3"], ["3"]]


def test_own_ddp_on_three_ranks_is_one_process(three):
    reports = three[1]
    for report in reports:
        assert len(report["gaps"]["own DDP"]) == 12
        assert max(report["gaps"]["own DDP"]) < 1e-12
        assert report["weights"] == reports[0]["weights"], "to the last bit"
    silent = {report["traces"]["never talks"][-1] for report in reports}
    assert len(silent) == 3, "without averaging there are three models"


def test_averaged_gradients_make_one_model_of_three_parts(three):
    reports = three[2]
    for report in reports:
        assert report["weights"] == reports[0]["weights"]
        assert report["error"] < 0.01


def test_two_ranks_take_the_steps_of_one_process(tmp_path):
    """With a mean of gradients, that is; their sum would lead elsewhere."""
    program = str(PROGRAMS / "average_by_sgd.py")
    weights = {}
    for ranks in (1, 2):
        folder = tmp_path / str(ranks)
        folder.mkdir()
        for report in launch(folder, ranks, program).reports("average", ranks):
            weights[ranks, report["rank"]] = torch.tensor(report["weights"])
    assert len(weights[1, 0]) == 500
    for rank in (0, 1):
        gap = (weights[2, rank] - weights[1, 0]).abs().max()
        assert gap < 1e-4, f"rank {rank} is off by {gap}"


def test_the_twins_take_the_steps_of_one_process(tmp_path):
    """torchrunned.py, of which spawned.py is a copy that starts its ranks itself."""
    reports = launch(tmp_path, 2, str(PROGRAMS / "halves_by_sgd.py")).reports("torchrunned", 2)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1)).double()
    x = torch.linspace(-3, 3, 200, dtype=torch.float64).unsqueeze(1)
    for _ in range(500):
        network.zero_grad()
        (network(x) - x.sin()).square().mean().backward()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter -= 0.01 * parameter.grad
    error = (network(x) - x.sin()).square().mean().item()
    for report in reports:
        assert report["seen"] == 100
        assert report["error"] == pytest.approx(error, rel=1e-3)


def test_spawned_and_torchrunned_train_alike():
    """Between the imports and the last lines only the names differ, so one test serves both."""
    texts = [rooms.program(name).read_text() for name in ("spawned", "torchrunned")]
    bodies = [text.partition("def train")[2].partition("if __name__")[0] for text in texts]
    assert bodies[0].replace("spawned", "torchrunned") == bodies[1]


def hangs() -> None:
    time.sleep(60)


def fails() -> float:
    return 1 / 0


def dies() -> None:
    os._exit(3)


@pytest.mark.parametrize(
    ("method", "function", "expected"),
    [
        ("fork", hangs, "had not ended after 0.5 s, and was killed"),
        ("fork", fails, "raised ZeroDivisionError: division by zero"),
        ("fork", dies, "died and said: nothing (exit code 3)"),
        ("spawn", os.getpid, "returned "),
    ],
)
def test_the_outcome_of_a_child(method, function, expected):
    limit = 0.5 if function is hangs else 30
    ended = outcome(method, function, limit)
    if method == "spawn":
        assert ended.startswith(expected)  # what it returned is another number each time
    else:
        assert ended == expected
