"""What is dear is made once for all workers; a failure reaches all, a death none."""

import multiprocessing
import subprocess
import sys
import time
from pathlib import Path

import pytest
from once import made_in

TESTS = Path(__file__).resolve().parents[1]
ASKED_BY_TWO = """
import os
import time

import pytest
from once import once


def make(folder):
    time.sleep(0.2)
    (folder / str(os.getpid())).touch()


def test_made(tmp_path_factory):
    assert len(list(once(tmp_path_factory, "site", make).iterdir())) == 1
    assert once(tmp_path_factory, "site", make) == once(tmp_path_factory, "site", make)


def refuse(folder):
    make(folder)
    raise ValueError(f"the disk is full, says {os.getpid()}")


def test_refused(tmp_path_factory):
    once(tmp_path_factory, "disk", refuse)
"""


def test_two_workers_make_it_once_and_both_are_told_of_a_failure(tmp_path: Path) -> None:
    (tmp_path / "test_asked.py").write_text(ASKED_BY_TWO)
    command = [sys.executable, "-m", "pytest", "-n2", "--dist=each", "-v", "test_asked.py"]
    command += ["--basetemp", tmp_path / "base", "-o", f"pythonpath={TESTS}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.count("PASSED test_asked.py::test_made") == 2, done.stdout
    assert done.stdout.count("FAILED test_asked.py::test_refused - ") == 2
    assert "disk could not be made:" in done.stdout
    assert len(list((tmp_path / "base" / "site").iterdir())) == 1
    assert len(list((tmp_path / "base" / "disk").iterdir())) == 1


def begin_and_wait(folder: Path) -> None:
    (folder / "half").touch()
    time.sleep(600)


def test_a_maker_that_is_killed_leaves_the_work_to_the_next(tmp_path: Path) -> None:
    processes = multiprocessing.get_context("spawn")
    maker = processes.Process(target=made_in, args=(tmp_path, "site", begin_and_wait))
    maker.start()
    while not (tmp_path / "site" / "half").exists():
        assert maker.is_alive()
        time.sleep(0.01)
    maker.kill()
    folder = made_in(tmp_path, "site", lambda folder: (folder / "whole").touch())
    assert [path.name for path in folder.iterdir()] == ["whole"]
    maker.join()
    assert made_in(tmp_path, "site", pytest.fail) == folder
