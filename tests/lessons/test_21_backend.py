"""Lesson 21 where its notebook does not look.

Its headers without torch, on one to four ranks; three ranks under DDP; tensors longer than a slot;
a machine without a compiler; ranks that are killed.
"""

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from ranks import Launch, launch

import tiny
from course import rooms
from course.measure import backend as backend_build

ROOT = Path(__file__).resolve().parents[2]
KILLS = ROOT / "tests" / "campaigns" / "kills.py"
PROGRAMS = ["alike", "ownbackends", "talk", "tiny"]

compiler = pytest.mark.skipif(not shutil.which("g++"), reason="not passed, but not tried: no g++")


@pytest.fixture(scope="session")
def nearby() -> Path:
    """The backend, built once for all tests, and kept."""
    return backend_build.build("nearby")


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    """The headers' own program: it needs no torch, so it is built in two seconds."""
    program = tmp_path_factory.mktemp("alone") / "lanes_alone"
    headers = f"-iquote{rooms.LESSONS / '21_backend'}"
    source = ROOT / "tests" / "programs" / "lanes_alone.cpp"
    command = ["g++", "-O1", "-Wall", "-Wextra", "-std=c++20", headers, source, "-o", program]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return program


def start(folder: Path, ranks: int, program: str, *libraries: Path) -> Launch:
    """Launch a program from a folder that holds these libraries."""
    for name in PROGRAMS:
        shutil.copy(rooms.program(name), folder)
    for library in libraries:
        (folder / library.name).symlink_to(library)
    return launch(folder, ranks, f"{program}.py")


@compiler
def test_the_headers_alone_add_in_rank_order_and_pass_on(alone: Path) -> None:
    for ranks in range(1, 5):
        done = subprocess.run([alone, str(ranks)], capture_output=True, text=True, timeout=60)
        assert done.stdout == "", f"{ranks} ranks"
        assert done.returncode == 0


@compiler
def test_three_ranks_get_the_weights_of_one_process(nearby: Path, tmp_path: Path) -> None:
    for report in start(tmp_path, 3, "alike", nearby).reports("alike", 3):
        assert report["backend"] == "nearby"
        for run in report["runs"].values():
            assert run["alone"] and run["halves"]["ours"]
            assert run["gap"] <= 1e-6
            assert run["mean"] == 0
            # Equal numbers on all ranks would have the same sum in any order.
            assert len({tuple(part) for part in run["parts"]}) == len(run["parts"])
        if report["rank"] < 2:
            assert report["runs"]["2"]["gap"] == 0


def test_each_rank_learns_from_other_numbers_in_each_step() -> None:
    """Otherwise the order in which gradients are added would never matter."""
    batches = [tiny.batch(step, rank) for step in (0, 1) for rank in (0, 1)]
    assert not any(torch.equal(one, other) for one, other in pairwise(batches))


def in_threads(library: Path, ranks: int, act: Callable) -> list:
    """What `act(backend, rank)` returns on each rank; here ranks are threads of this process."""
    spec = importlib.util.spec_from_file_location(library.stem, library)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    store = dist.HashStore()

    def run(rank: int):
        backend = module.create(store, rank, ranks, timedelta(seconds=20))
        return act(backend, rank)

    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(run, range(ranks)))


@compiler
def test_tensors_longer_than_a_slot_are_gathered_and_broadcast(nearby: Path) -> None:
    count = 300_000  # 1.2 MB: three chunks

    def numbers(rank: int) -> torch.Tensor:
        return torch.arange(count) % 1009 + 2000.0 * rank

    def act(backend: dist.Backend, rank: int) -> tuple[list, torch.Tensor]:
        gathered = [torch.zeros(count) for _ in range(3)]
        backend.allgather([gathered], [numbers(rank)]).wait()
        sent = numbers(rank)
        options = dist.BroadcastOptions()
        options.rootRank = 1
        backend.broadcast([sent], options).wait()
        return gathered, sent

    for gathered, sent in in_threads(nearby, 3, act):
        for rank in range(3):
            assert torch.equal(gathered[rank], numbers(rank))
        assert torch.equal(sent, numbers(1))


@compiler
def test_the_small_backend_broadcasts_from_any_rank() -> None:
    """On three ranks, twice from the same root, and an all-reduce afterwards."""

    def act(backend: dist.Backend, rank: int) -> list[list[float]]:
        options = dist.BroadcastOptions()
        left = []
        for number, root in enumerate([0, 2, 2, 1]):
            options.rootRank = root
            sent = torch.full((2,), 10.0 * number + rank)
            backend.broadcast([sent], options).wait()
            left.append(sent.tolist())
        total = torch.ones(2)
        backend.allreduce([total]).wait()
        return [*left, total.tolist()]

    for left in in_threads(backend_build.build("broadcasting"), 3, act):
        assert left == [[0, 0], [12, 12], [22, 22], [31, 31], [3, 3]]


def test_without_a_compiler_gloo_takes_its_place_and_the_results_say_so(tmp_path: Path) -> None:
    """In one launch on a machine that has built neither library."""
    for report in start(tmp_path, 2, "talk").reports("talk", 2):
        assert set(report["names"].values()) == {"gloo"}
        assert set(report["refused"].values()) == {""}
        assert report["equal"] and report["total"] == [11.0] * 4
        assert report["received"] == [[1.0] * 4, [10.0] * 4]


@compiler
def test_ranks_that_are_killed_leave_nothing_and_the_others_hear_of_it(nearby: Path) -> None:
    """As tests/campaigns/kills.py does 200 times."""
    command = [sys.executable, KILLS, "--kills", "3", "--limit", "0.5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 kills: " in done.stdout
