"""Lesson 12 where its notebook does not look.

Whose processes `spy.py` finds, what it says where it may not look, and that the index names
sections that exist.
"""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
import torch
from ranks import launch
from torch import nn

import rooms
import spy

SOURCE = (Path(__file__).resolve().parents[2] / "notebooks" / "src" / "12_break_it.md").read_text()
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


def entries() -> list[list[str | None]]:
    """The arguments of each `meet(…)` in the lesson that are plain texts; None for the others."""
    cells = re.findall(r"^```python.*?\n(.*?)^```", SOURCE, re.MULTILINE | re.DOTALL)
    nodes = [node for cell in cells if cell[0] not in "%!" for node in ast.walk(ast.parse(cell))]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    meets = [call for call in calls if getattr(call.func, "id", "") == "meet"]
    return [[getattr(argument, "value", None) for argument in meet.args] for meet in meets]


def test_every_entry_of_the_index_names_a_section_and_both_languages() -> None:
    headings = set(re.findall(r"^#{2,3} (.+?) · ", SOURCE, re.MULTILINE))
    assert len(entries()) >= 12
    for piece, _, section, remedy in entries():
        assert section in headings, piece
        assert " · " in remedy and not set("|`\n") & set(piece + remedy), piece


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
