"""What decides about the lessons' runs: the judge of what they print, and the stamps."""

import json
import os
from pathlib import Path

import nbformat
import pytest
import stamps
from nbformat.v4 import new_code_cell, new_notebook, new_output
from test_notebooks import results
from whole import UNSOLVED, complaints

pytestmark = pytest.mark.quick


def cell(text: str, *tags: str, count: int | None = 1):
    output = new_output("stream", text=text)
    metadata = {"tags": list(tags)}
    return new_code_cell("x", execution_count=count, outputs=[output], metadata=metadata)


@pytest.mark.parametrize(
    ("ran", "said"),
    [
        (cell("3 ranks ✓\n"), []),
        (cell("✓\n3 ranks – not yet\n"), ["cell 1 is solved, and prints “3 ranks – not yet”"]),
        (cell("A figure's title: not learnt yet"), ["cell 1 is solved, and prints “A figure's"]),
        (cell("3 ranks – not yet\n", UNSOLVED), []),
        (
            cell("A figure's fault: 8 inches high\n", UNSOLVED),
            ["cell 1: A figure's fault: 8 inches"],
        ),
        (cell("", count=None), ["cell 1 was not run"]),
    ],
    ids=["solved", "not yet", "a figure", "unsolved", "a fault", "not run"],
)
def test_a_solved_notebook_does_not_say_not_yet(ran, said: list[str]) -> None:
    found = complaints(new_notebook(cells=[ran]))
    assert len(found) == len(said)
    assert all(one.startswith(start) for one, start in zip(found, said, strict=True))


def test_the_table_of_results_is_read() -> None:
    said = """03_x: ok, 7 s

lesson  seconds  result
03_x          7  ok
04_y         12  FAILED in cell 2: x
                 the cause
05_z          1  ok

Open site/index.html
"""
    told = results(said)
    assert list(told) == ["03_x", "04_y", "05_z"]
    assert told["03_x"] == told["05_z"] == "ok"
    assert told["04_y"].startswith("FAILED in cell 2: x\n")
    assert told["04_y"].endswith("the cause")
    assert results("run: interrupted") == {}


# ---- stamps


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch) -> Path:
    """A notebook with a stamp of its green run, outside of CI."""
    monkeypatch.setattr(stamps, "STAMPS", tmp_path / "stamps")
    monkeypatch.delenv("CI", raising=False)
    path = tmp_path / "03_x.ipynb"
    metadata = {"course": {"quick": {"N": 1}}}
    nbformat.write(new_notebook(cells=[new_code_cell("1")], metadata=metadata), path)
    assert stamps.changed("03_x", stamps.parts(path, ["--quick"])) == "no stamp"
    stamps.stamp("03_x", stamps.parts(path, ["--quick"]))
    return path


def why(path: Path, *options: str) -> str:
    return stamps.changed("03_x", stamps.parts(path, list(options) or ["--quick"]))


@pytest.mark.torch
def test_what_was_green_and_has_not_changed_is_not_run_again(prepared: Path) -> None:
    assert why(prepared) == ""
    assert stamps.changed("04_y", stamps.parts(prepared, ["--quick"])) == "no stamp"


@pytest.mark.torch
def test_in_ci_everything_runs(prepared: Path, monkeypatch) -> None:
    monkeypatch.setenv("CI", "true")
    assert why(prepared) == "CI is set"


@pytest.mark.torch
def test_a_changed_cell_runs_again(prepared: Path) -> None:
    notebook = nbformat.read(prepared, as_version=4)
    notebook.cells[0].source = "2"
    nbformat.write(notebook, prepared)
    assert why(prepared) == "cells"


@pytest.mark.torch
def test_a_changed_parameter_or_option_runs_again(prepared: Path) -> None:
    assert why(prepared, "--quick", "--forked") == "options"
    notebook = nbformat.read(prepared, as_version=4)
    notebook.metadata.course.quick.N = 2
    nbformat.write(notebook, prepared)
    assert why(prepared) == "parameters"


@pytest.mark.torch
def test_a_changed_package_runs_again(prepared: Path, monkeypatch) -> None:
    installed = stamps.packages()
    assert any(each.startswith("torch==") for each in installed)
    newer = [each.replace("torch==2", "torch==3") for each in installed]
    monkeypatch.setattr(stamps, "packages", lambda: newer)
    assert why(prepared) == "packages"


@pytest.mark.torch
def test_a_changed_tool_runs_again(prepared: Path, tmp_path: Path, monkeypatch) -> None:
    names = {path.name for path in stamps.TOOLS}
    assert {"run.py", "run_forked.py", "run_notebook.py", "run_papermill.py", "whole.py"} <= names
    changed = tmp_path / stamps.TOOLS[0].name
    changed.write_text(stamps.TOOLS[0].read_text() + "\n")
    monkeypatch.setattr(stamps, "TOOLS", [changed, *stamps.TOOLS[1:]])
    assert why(prepared) == "tools"


@pytest.mark.torch
def test_another_machine_runs_again(prepared: Path, monkeypatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert why(prepared) == "machine"
    monkeypatch.undo()
    assert json.loads((prepared.parent / "stamps" / "03_x.json").read_text())["machine"]
