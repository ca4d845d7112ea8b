"""`make run`: what it keeps, where it goes on, and what it says of a machine that lacks something.

A real course.run runs in a copy of the tools, on notebooks that start no rank. There is
no course in it to build a site from, which it says.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from test_run import notebook, start, wait_for  # noqa: F401

from course import ROOT, machine
from course.run import __main__ as run_course
from course.run import kept as run_kept
from course.run import notebook as run_notebook
from course.run.kept import Kept

# It ends when a file is there; and says so when it begins.
PATIENT = """from pathlib import Path
import time
Path("FOLDER", "begun").touch()
while not Path("FOLDER", "go").exists():
    time.sleep(0.05)"""


@pytest.fixture
def copy(tmp_path) -> Path:
    """A clone with two notebooks: one that is done at once, one that waits."""
    copy = tmp_path / "copy"
    uncopied = shutil.ignore_patterns("__pycache__", "lessons/*_*")
    shutil.copytree(ROOT / "scripts", copy / "scripts", ignore=uncopied)
    (copy / "notebooks").mkdir()
    notebook(copy / "notebooks" / "a_done.ipynb", "1 + 1")
    notebook(copy / "notebooks" / "b_waits.ipynb", PATIENT.replace("FOLDER", str(tmp_path)))
    return copy


def report(copy: Path) -> dict:
    return json.loads((copy / "build" / "executed" / "runs.json").read_text())


def test_an_interrupted_run_goes_on_with_what_is_left(start, copy, tmp_path):  # noqa: F811
    how = {"tool": "course.run", "scripts": copy / "scripts"}
    first = start(tmp_path, **how)
    wait_for(lambda: "a_done: ok" in first.out and (tmp_path / "begun").exists(), "one is done")
    wait_for((copy / "build" / "executed" / "a_done.ipynb").exists, "it is kept")
    wait_for(lambda: report(copy)["runs"], "it is told")

    command = [sys.executable, "-m", "course.run"]
    env = os.environ | {"PYTHONPATH": str(copy / "scripts")}
    second = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert second.returncode == 1
    [line] = second.stderr.splitlines()
    assert f"another `make run` is at work here (process {first.process.pid})" in line

    os.killpg(first.process.pid, signal.SIGINT)
    wait_for(first.gone, "the end of all that it started", 5)
    assert first.process.returncode == 130
    assert "interrupted; 1 of 2 have run, and the next `make run` does what is left" in first.out
    assert "Traceback" not in first.out

    (tmp_path / "go").touch()
    for left in ("b_waits", "", "a_done"):
        if left == "a_done":  # its source has changed
            notebook(copy / "notebooks" / "a_done.ipynb", "1 + 2")
        again = start(tmp_path, **how)
        again.process.wait(90)
        assert re.findall(r"^(\w+): ok", again.out, re.MULTILINE) == ([left] if left else [])
        assert "have run before, and are kept" in again.out
        assert [run["ok"] for run in report(copy)["runs"]] == [True, True]
    ran = nbformat.read(copy / "build" / "executed" / "a_done.ipynb", as_version=4)
    assert ran.cells[2].outputs[0].data["text/plain"] == "3"


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Makes what is kept of these notebooks, as `make run` does at its beginning."""
    notebooks = tmp_path / "notebooks"
    notebooks.mkdir()
    for module in (run_kept, run_notebook):
        monkeypatch.setattr(module, "NOTEBOOKS", notebooks)
    folder = tmp_path / "executed"
    folder.mkdir()
    for name in ("01_one", "02_two", "workshop"):
        notebook(notebooks / f"{name}.ipynb", name, quick={"N": 1})

    def begin(*names: str, forked: bool = True) -> Kept:
        paths = [notebooks / f"{name}.ipynb" for name in names]
        chosen = {path: nbformat.read(path, as_version=4) for path in paths}
        return Kept(folder, chosen, forked)

    return begin


def ran(kept: Kept, *names: str, ok: bool = True) -> None:
    """Note that notebooks have run."""
    for path in kept.chosen:
        if path.stem in names:
            nbformat.write(kept.chosen[path], kept.folder / path.name)
            row = {"name": path.stem, "ok": ok, "stamp": kept.stamp(path)}
            kept.rows[path.stem] = row
    kept.write()


@pytest.mark.quick
def test_what_was_green_stays_until_all_is(kept):
    names = ["01_one", "02_two"]
    first = kept(*names)
    ran(first, "01_one")
    ran(first, "02_two", ok=False)
    assert [*kept(*names).rows] == ["01_one"]
    assert [path.name for path in first.folder.glob("*.ipynb")] == ["01_one.ipynb"]
    # Another lesson in between does not end what was begun.
    other = kept("workshop")
    ran(other, "workshop")
    other.finish()
    third = kept(*names)
    assert [*third.rows] == ["01_one", "workshop"]
    ran(third, "02_two")
    third.finish()
    assert not kept(*names).rows
    assert not list(first.folder.glob("*.ipynb"))


@pytest.mark.quick
@pytest.mark.parametrize("change", ["source", "way", "packages", "nothing"])
def test_what_would_run_otherwise_runs_again(kept, monkeypatch, change):
    first = kept("01_one")
    ran(first, "01_one")
    [path] = first.chosen
    if change == "source":
        path.write_text(path.read_text().replace("N = 0", "N = 1"))
    if change == "packages":
        monkeypatch.setattr(run_kept, "distributions", lambda: [])
    again = kept("01_one", forked=change != "way")
    assert (path in again) == (change == "nothing")


@pytest.mark.quick
def test_the_class_has_its_own_parameters(kept):
    both = kept("01_one", "workshop")
    given = [both.parameters(path, notebook) for path, notebook in both.chosen.items()]
    assert given == [{}, {"N": 1}]


@pytest.mark.quick
def test_one_line_says_how_launches_were_started():
    rows = [{"launches": 14, "forked": 12}, {"launches": 4, "forked": 0}]
    assert run_course.way(rows, "").startswith("12 of 18 launches forked; `make run PLAIN=1`")
    said = run_course.way(rows[1:], "PLAIN=1")
    assert said == "All 4 launches started as readers start them (PLAIN=1)"


# ---- machines


@pytest.mark.quick
def test_launches_stay_plain_beside_a_gpu(tmp_path):
    (tmp_path / "null").touch()
    assert machine.why_plain(tmp_path) == ""
    (tmp_path / "nvidia0").touch()
    assert "GPU" in machine.why_plain(tmp_path)


@pytest.mark.quick
def test_launches_stay_plain_without_what_a_forkserver_needs(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    assert "need Linux" in machine.why_plain(tmp_path)


@pytest.mark.quick
def test_a_small_machine_runs_one_notebook_at_a_time(tmp_path, monkeypatch):
    (tmp_path / "memory.max").write_text("4000000000\n")
    (tmp_path / "memory.current").write_text("1000000000\n")
    assert machine.free_memory(tmp_path) <= 3e9
    for free, jobs in {1e9: 1, 4e9: 1, 5.1e9: 2, 100e9: 8}.items():
        monkeypatch.setattr(machine, "free_memory", lambda free=free: free)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
        assert machine.side_by_side() == jobs
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert machine.side_by_side() == 1


@pytest.mark.quick
def test_what_a_machine_lacks_is_told_ahead(tmp_path, monkeypatch, capsys):
    path = notebook(tmp_path / "21_backend.ipynb", "!g++ -shared ours.cpp")
    chosen = {path: nbformat.read(path, as_version=4)}
    monkeypatch.setattr(run_course, "free_memory", lambda: 2e9)
    monkeypatch.setenv("PATH", str(tmp_path))
    run_course.warn(chosen)
    memory, compiler = capsys.readouterr().out.splitlines()
    assert "2.0 GB of memory are free" in memory
    assert "no g++ here, so 21_backend" in compiler
    monkeypatch.undo()
    monkeypatch.setattr(run_course, "free_memory", lambda: 3e9)
    (tmp_path / "g++").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    run_course.warn(chosen)
    assert not capsys.readouterr().out
