"""What conftest.py does for all tests, on small ones: who runs what, and what is left out."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import green
import minutes
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

TESTS = Path(__file__).resolve().parents[1]
LESSON = "tests/lessons/test_00_small.py"
TWO = '"""Two tests."""\n\n\ndef test_a():\n    assert 1 + 1 == 2\n\n\ndef test_b():\n    pass\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a few tests, and our conftest."""
    for folder in (
        "scripts/lessons",
        "scripts/course",
        "notebooks/src",
        "tests/lessons",
        "tests/tools",
    ):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("conftest.py", "green.py", "minutes.py"):
        shutil.copy(TESTS / name, tmp_path / "tests")
    markers = "\n    ".join(["quick", "rests_on", "thorough"])
    settings = f"[pytest]\nmarkers =\n    {markers}\n"
    (tmp_path / "pytest.ini").write_text(settings)
    names = [f"tests/lessons/{name}" for name in ("ranks", "slices", "whole")]
    names += [f"scripts/course/{name}" for name in green.SHARED]
    for name in names:
        (tmp_path / f"{name}.py").touch()
    (tmp_path / LESSON).write_text(TWO)
    (tmp_path / "notebooks" / "src" / "00_small.md").write_text("Words.\n\n```python\n1\n```\n")
    return tmp_path


def tried(root: Path, *options: str, **variables: str) -> str:
    """What pytest says of all tests there. Whoever runs these tests may have CI set, or workers."""
    ours = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    ours.pop("CI", "")
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *options, "tests"]
    done = subprocess.run(
        command, cwd=root, env=ours | variables, capture_output=True, text=True, timeout=120
    )
    return done.stdout + done.stderr


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_what_was_green_is_left_out_until_what_runs_has_changed(root: Path) -> None:
    (root / "tests/tools/test_t.py").write_text("def test_always():\n    pass\n")
    assert "3 passed" in tried(root)
    change(root / LESSON, '"""Two tests."""', '"""Two of them."""  # a word')
    change(root / "notebooks/src/00_small.md", "Words", "Other words")
    again = tried(root)
    assert "1 passed, 2 skipped" in again
    assert "2 tests of 1 files, 1 lessons, green before, and not tried again" in again
    assert "3 passed" in tried(root, CI="true")

    change(root / LESSON, "1 + 1 == 2", "2 == 1 + 1")
    assert "3 passed" in tried(root)
    change(root / "notebooks/src/00_small.md", "\n1\n", "\n2\n")
    assert "3 passed" in tried(root)


def test_what_was_red_is_told_at_once_and_tried_again(root: Path) -> None:
    change(root / LESSON, "1 + 1 == 2", "__import__('pathlib').Path('mended').exists()")
    said = tried(root, "-n", "auto")
    assert f"{LESSON}::test_a, call:\n" in said and "1 failed, 1 passed" in said
    found = re.search(r"^(\d+) at a time: (\d+) cores, ([\d.]+) GB", said, re.MULTILINE)
    cores = int(found[2])
    free = float(found[3])
    assert int(found[1]) == max(1, min(cores, int(free / 2.5)))
    (root / "mended").touch()
    assert "1 passed, 1 skipped" in tried(root)


def test_another_package_tool_or_machine_is_tried_again(monkeypatch) -> None:
    before = green.surroundings.__wrapped__()
    assert green.surroundings.__wrapped__() == before
    installed = green.packages()
    assert any(each.startswith("pytest==") for each in installed)
    names = {path.name for path in green.TOOLS}
    wanted = {"notebooks.py", "torchrun", "whole.py", "ranks.py", "cells_in_turn.py"}
    assert wanted <= names
    others = {
        "packages": lambda: [*installed, "new==1"],
        "machine": lambda: ["another"],
        "TOOLS": green.TOOLS[1:],
    }
    for name, other in others.items():
        monkeypatch.setattr(green, name, other)
        assert green.surroundings.__wrapped__() != before
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("source", "same"),
    [
        ("%%writefile x.py\na = 1", True),
        ("%%writefile x.py\na = 1  # a comment", True),
        ("%%writefile x.py\n# BEGIN SOLUTION\na = 1\n# STUB a = 0\n# END SOLUTION", False),
        ("%%writefile x.py\na = 2", False),
        ("%%writefile y.py\na = 1", False),
    ],
)
def test_a_cell_is_what_it_runs(source: str, same: bool) -> None:
    assert (green.cell(source) == green.cell("%%writefile x.py\na = 1")) == same


def test_a_notebook_is_its_code_tags_and_parameters(tmp_path: Path) -> None:
    def made_of(code: str, tags: list, quick: dict) -> list:
        cell = new_code_cell(code, metadata={"tags": tags})
        metadata = {"course": {"quick": quick}}
        nbformat.write(new_notebook(cells=[cell], metadata=metadata), tmp_path / "x.ipynb")
        return green.notebook(tmp_path / "x.ipynb")

    first = made_of("1", [], {"N": 1})
    assert made_of("1  # a comment", [], {"N": 1}) == first
    for other in [("2", [], {"N": 1}), ("1", ["solution"], {"N": 1}), ("1", [], {"N": 2})]:
        assert made_of(*other) != first


# ---- who runs what


def test_growth_is_told_and_what_did_not_run_keeps_its_minutes(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(minutes, "ROOT", tmp_path)
    monkeypatch.setattr(minutes, "KEPT", tmp_path / "build" / "minutes.json")
    for name in ("a.py", "b.py"):
        (tmp_path / name).touch()
    minutes.keep({"a.py": {"test_x": 2.0, "test_y": 1.0}, "b.py": {"test_z": 1.0}})
    now = {"a.py": {"test_x": 2.9, "test_new": 9.0}, "c.py": {"test_z": 9.0}}
    assert minutes.grown(minutes.read(), now) == ["  2.0 → 2.9 min  a.py"]
    assert minutes.grown(minutes.read(), {"a.py": {"test_x": 2.3}}) == []
    assert minutes.grown(minutes.read(), {"b.py": {"test_z": 1.4}}) == []
    minutes.keep(now)
    there = {"a.py": {"test_x": 2.9, "test_y": 1.0, "test_new": 9.0}, "b.py": {"test_z": 1.0}}
    assert minutes.read() == there


def test_one_test_changes_its_environment() -> None:
    os.environ["RANK"] = "0"


def test_the_next_one_does_not_see_it() -> None:
    assert "RANK" not in os.environ
