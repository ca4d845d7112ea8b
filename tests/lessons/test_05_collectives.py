"""Lesson 05 where its notebook does not look: its programs on three ranks, and how a child process may end."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rooms
from child import outcome

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "programs"


@pytest.fixture(scope="module")
def three(tmp_path_factory) -> list[list[dict]]:
    """What each of three ranks reported in the ring, in our own DDP, and with averaged gradients."""
    folder = tmp_path_factory.mktemp("three")
    lines = json.dumps([[str(folder), 3, [f"{PROGRAMS}/several.py", "ring --elements 1001", "ownddp", "average"]]])
    settings = {"PYTHONPATH": rooms.python_path(), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, PROGRAMS / "torchruns.py"]
    subprocess.run(command, input=lines, text=True, env=os.environ | settings, timeout=120, check=True)
    assert (folder / "exit").read_text() == "0", (folder / "log").read_text()
    endings = ["json", "rank1.json", "rank2.json"]
    return [[json.loads((folder / f"{number}.{ending}").read_text()) for ending in endings] for number in range(3)]


def test_the_ring_counts_the_bytes_of_unequal_chunks(three):
    """334 + 334 + 333 numbers of four bytes: in four steps a rank sends each chunk once, and its own again."""
    assert [rank["rings"]["3"]["sent"] for rank in three[0]] == [4 * (1001 + own) for own in (334, 334, 333)]
    assert all(rank["rings"]["3"]["right"] for rank in three[0])
    assert [sorted(rank["rings"]) for rank in three[0]] == [["1", "2", "3"], ["2", "3"], ["3"]]


def test_own_ddp_on_three_ranks_is_one_process(three):
    assert all(len(rank["gaps"]) == 12 and max(rank["gaps"]) < 1e-12 for rank in three[1])
    assert three[1][0]["weights"] == three[1][1]["weights"] == three[1][2]["weights"], "to the last bit"
    lonely = [rank["traces"]["never talks"][-1] for rank in three[1]]
    assert len(set(lonely)) == 3, "without averaging there are three models"


def test_averaged_gradients_make_one_model_of_three_parts(three):
    assert three[2][0]["weights"] == three[2][1]["weights"] == three[2][2]["weights"]
    assert all(rank["error"] < 0.01 for rank in three[2])


def hangs() -> None:
    time.sleep(60)


def fails() -> float:
    return 1 / 0


def dies() -> None:
    os._exit(3)


@pytest.mark.parametrize(
    ("method", "function", "told"),
    [
        ("fork", hangs, "had not ended after 0.5 s, and was killed"),
        ("fork", fails, "raised ZeroDivisionError: division by zero"),
        ("fork", dies, "died and said: nothing (exit code 3)"),
        ("spawn", os.getpid, "returned "),
    ],
)
def test_the_outcome_of_a_child(method, function, told):
    said = outcome(method, function, 0.5 if function is hangs else 30)
    assert said == told or (method == "spawn" and said.startswith(told))
