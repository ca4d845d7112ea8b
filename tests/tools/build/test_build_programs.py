"""`make programs`: what the solved notebook of one lesson writes, to be run by hand."""

import subprocess
import sys
from pathlib import Path

import pytest
from small_course import FIRST, ROOMS, Small

from course.lesson import Lesson

pytestmark = pytest.mark.quick


def written(course: Small, name: str) -> dict[str, str]:
    """What the cells of a notebook write, by file name."""
    return {name: f"{text}\n" for name, text in Lesson.at(course.path(name)).files.items()}


def test_the_folder_holds_what_the_solved_notebook_writes(course: Small, tmp_path: Path):
    folder = tmp_path / "programs"
    assert course.build("--programs", "01", str(folder)) == 0
    there = {path.name: path.read_text() for path in folder.iterdir()}
    assert there == written(course, "solutions/01_first")
    assert set(there) == {"launch.py", "tools.py", "alpha.py"}
    assert "return int(2 * half)" in there["tools.py"] and "STUB" not in there["tools.py"]


@pytest.mark.torch
def test_a_program_runs_there(course: Small, tmp_path: Path):
    course.build("--programs", "01", str(tmp_path / "programs"))
    command = [sys.executable, "alpha.py"]
    done = subprocess.run(command, cwd=tmp_path / "programs", capture_output=True, text=True)
    assert done.stdout == "3\n", done.stderr


def test_without_a_folder_they_lie_in_build(course: Small, capsys):
    before = course.files()
    course[f"{ROOMS}/01_first/job.sh"] = "python alpha.py\n"
    cells = "%%writefile alpha.py\n```\n\n```python\n%%writefile job.sh\n"
    course.replace(FIRST, "%%writefile alpha.py\n", cells)
    assert course.build("--programs", "01") == 0
    folder = course.root / "build" / "01_first"
    assert (folder / "job.sh").read_text() == "python alpha.py\n"
    assert f"{folder / 'alpha.py'}\n" in capsys.readouterr().out
    notebooks = {path: file for path, file in course.files().items() if path.endswith(".ipynb")}
    assert notebooks.items() <= before.items()  # none is written


def test_an_unknown_lesson_is_refused(course: Small, capsys):
    before = course.files()
    assert course.build("--programs", "07") == 1
    message = "build: --programs 07: there is no such lesson, but 01, 02.\n"
    assert capsys.readouterr().err == message
    assert course.files() == before


def test_a_folder_without_a_lesson_is_refused(course: Small, capsys, tmp_path: Path):
    with pytest.raises(SystemExit):
        course.build(str(tmp_path))
    assert "a folder is only for --programs" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_told_in_one_line(course: Small, tmp_path: Path, capsys):
    (tmp_path / "file").touch()
    assert course.build("--programs", "01", str(tmp_path / "file" / "below")) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"build: {tmp_path / 'file'}") and "run this again" in line
