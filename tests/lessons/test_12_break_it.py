"""Lesson 12 where its notebook does not look.

Whose processes `spy.py` finds, what it says where it may not look, which calls meet on gloo, and
that the guard against NaN never waits for the device in the middle of backward.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist
from ranks import launch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import poison
import spy
from course import rooms
from devices import Place

SLEEPER = "import time; print('up', flush=True); time.sleep(60)"


@pytest.fixture
def start(tmp_path: Path) -> Iterator:
    """Starts a process that sleeps, from a file, in a folder, as some rank or as none.

    All are ended afterwards.
    """
    with ExitStack() as stack:

        def run(name: str, folder: str, rank: int | None) -> int:
            place = tmp_path / folder
            place.mkdir(exist_ok=True)
            (place / name).write_text(SLEEPER)
            env = {key: value for key, value in os.environ.items() if key != "RANK"}
            if rank is not None:
                env["RANK"] = str(rank)
            command = [sys.executable, name]
            process = subprocess.Popen(command, cwd=place, env=env, stdout=subprocess.PIPE)
            stack.enter_context(process)
            stack.callback(process.kill)
            process.stdout.readline()
            return process.pid

        yield run


def test_only_ranks_of_this_program_in_this_folder_are_found(start, tmp_path, monkeypatch) -> None:
    own = {rank: start("train.py", "here", rank) for rank in (1, 0)}
    start("train.py", "elsewhere", 0)
    start("train.py", "here", None)  # as torchrun, or the same program alone
    start("other.py", "here", 2)
    monkeypatch.chdir(tmp_path / "here")
    found = spy.ranks("train.py")
    assert {rank: process.pid for rank, process in found.items()} == own
    assert list(found) == [0, 1]
    assert not spy.ranks("nothing.py")


def fake(folder: Path, script: str) -> str:
    """A PATH on which `py-spy` is this shell script."""
    program = folder / "py-spy"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin"


def test_a_machine_that_lets_nobody_look_is_said_in_a_sentence(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", fake(tmp_path, "echo 'Error: Permission Denied' >&2; exit 1"))
    me = psutil.Process()
    sentence = f"py-spy may not look into process {me.pid} here: Error: Permission Denied"
    assert spy.stack(me) == (sentence,)


def test_the_main_thread_is_shown_and_no_other(tmp_path, monkeypatch) -> None:
    threads = ["Process 1: python", 'Thread 2 (idle): "MainThread"']
    threads += ["    wait (a.py:1)", "    main (b.py:2)"]
    threads += ['Thread 3 (idle): "pool"', "    run (c.py:3)"]
    (tmp_path / "dump").write_text("\n".join(threads))
    monkeypatch.setenv("PATH", fake(tmp_path, f"cat {tmp_path}/dump"))
    assert spy.stack(psutil.Process()) == ("wait (a.py:1)", "main (b.py:2)")


def test_without_py_spy_it_says_so_and_ends(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["spy.py", "train.py"])
    spy.main()
    assert "pip install py-spy" in capsys.readouterr().out


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory) -> list[dict]:
    """What three ranks reported of poison.py, with the check of the gradients and without it."""
    folder = tmp_path_factory.mktemp("poisoned")
    reports = launch(folder, 3, str(rooms.program("poison"))).reports("poison", 3)
    return [report["runs"] for report in reports]


def by_hand(steps: int) -> list[list[float]]:
    """Each rank's losses, in float64, by the mean of three gradients; none takes step 12."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2)).double()
    losses: list[list[float]] = [[], [], []]
    for step in range(steps):
        network.zero_grad()
        for rank in range(3):
            generator = torch.Generator().manual_seed(1000 * step + rank)
            a, b = torch.randn(2, 16, 4, generator=generator).double()
            if (step, rank) == (12, 1):
                b[5] = a[5]
            distance = (network(a) - network(b)).square().sum(1).sqrt()
            loss = (distance - 1).square().mean()
            losses[rank].append(loss.item())
            (loss / 3).backward()
        if step != 12:
            with torch.no_grad():
                for parameter in network.parameters():
                    parameter -= 0.05 * parameter.grad
    return losses


def test_ranks_that_skip_the_bad_step_train_on_the_mean_of_the_others(poisoned) -> None:
    expected = by_hand(30)
    for rank, runs in enumerate(poisoned):
        assert runs["guarded"]["fault"] == [None] * 12 + [1] + [None] * 17
        assert runs["guarded"]["loss"] == pytest.approx(expected[rank], rel=1e-4)
        assert runs["unguarded"]["loss"][:13] == pytest.approx(expected[rank][:13], rel=1e-4)


class Looks(TorchDispatchMode):
    """Counts how often Python asks for the value of a tensor: on a GPU it waits for each."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten._local_scalar_dense.default:
            self.count += 1
        return func(*args, **(kwargs or {}))


class Bucket:
    """Of DDP's gradients, as a communication hook gets it."""

    def __init__(self, gradient: Tensor) -> None:
        self.gradient = gradient

    def buffer(self) -> Tensor:
        return self.gradient


@pytest.fixture
def alone() -> Iterator[Place]:
    """A process group of one rank."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield Place(0, 0, 1, torch.device("cpu"), "gloo")
    dist.destroy_process_group()


def test_the_hook_looks_at_no_value_and_the_step_at_one(alone: Place) -> None:
    finite: list[Tensor] = []
    gradients = [torch.ones(3), torch.tensor([1.0, torch.nan]), torch.tensor([torch.inf])]
    with Looks() as looks:
        averaged = [poison.average(finite, Bucket(gradient)) for gradient in gradients]
    assert looks.count == 0
    assert [future.wait().isfinite().all().item() for future in averaged] == [True, False, False]
    assert [flag.item() for flag in finite] == [True, False, False]
    with Looks() as looks:
        assert poison.first_at_fault(torch.stack(finite).all(), alone) == 0
    assert looks.count == 1
    assert poison.first_at_fault(torch.tensor(True), alone) is None


KINDS = """
import sys
from datetime import timedelta
import torch
import torch.distributed as dist
dist.init_process_group("gloo", timeout=timedelta(seconds=30))
rank = dist.get_rank()
calls = {
    "all_reduce": lambda group: dist.all_reduce(torch.ones(2), group=group),
    "barrier": lambda group: dist.barrier(group),
    "broadcast": lambda group: dist.broadcast(torch.ones(2), src=1, group=group),
    "all_gather": lambda group: dist.all_gather([torch.ones(2)] * 2, torch.ones(2), group=group),
}
met = []
for name, call in calls.items():
    group = dist.new_group(timeout=timedelta(seconds=1))
    dist.barrier()
    try:
        calls["all_reduce"](group) if rank == 0 else call(group)
        met.append(name)
    except RuntimeError:
        pass
# In one piece, so that the other rank's line cannot come in between.
print(f"rank {rank}: {' '.join(met)}\\n", end="", flush=True)
dist.barrier()
"""


def test_on_gloo_only_calls_of_one_kind_meet(tmp_path) -> None:
    """What the lesson says before its first two predictions."""
    (tmp_path / "kinds.py").write_text(KINDS)
    done = launch(tmp_path, 2, "kinds.py")
    for rank in range(2):
        assert f"rank {rank}: all_reduce\n" in done.text


def test_the_mean_of_all_losses_decides_and_rank_0_sends_it(tmp_path) -> None:
    reports = launch(tmp_path, 2, str(rooms.program("stop"))).reports("stop", 2)
    assert [each["epochs"] for each in reports] == [5, 5]
