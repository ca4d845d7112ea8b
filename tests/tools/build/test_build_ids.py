"""The ids of cells: the same in a lesson, its solution and the class, and no word moves them."""

import re
import shutil
from pathlib import Path

import nbformat
import pytest
from small_course import FIRST, SECOND, Small

from course import ROOT
from course.build import __main__ as build
from course.lesson import tags
from course.sources import Course

pytestmark = pytest.mark.quick

LESSONS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
# A cell of prose that begins with an English word and ends with a Chinese one.
PROSE = re.compile(r"[A-Z][a-z]+(?P<between> [\s\S]*)[\u4e00-\u9fff][。？]")


def cells(name: str) -> dict[str, str]:
    """The cells of a committed notebook, by their ids."""
    found = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4).cells
    texts = {cell.id: f"{cell.cell_type}\n{cell.source}" for cell in found}
    assert len(texts) == len(found)
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", name) for name in texts)
    return texts


def first_lines(texts: dict[str, str]) -> dict[str, str]:
    """How each cell begins: what exercises leave alone."""
    return {name: "\n".join(text.splitlines()[:2]) for name, text in texts.items()}


@pytest.mark.parametrize("name", LESSONS)
def test_a_solution_has_the_ids_of_its_lesson(name: str):
    lesson = cells(name)
    solved = cells(f"solutions/{name}")
    assert [cell for cell in solved if cell in lesson] == list(lesson)
    prose = {cell: text for cell, text in lesson.items() if text.startswith("markdown")}
    beginnings = first_lines(solved)
    assert all(beginnings[cell] == begin for cell, begin in first_lines(prose).items())


def test_the_class_has_the_ids_of_its_lessons():
    ours = {cell: text for name in LESSONS for cell, text in first_lines(cells(name)).items()}
    for name in ("workshop", "solutions/workshop"):
        texts = cells(name)
        theirs = [cell for cell in texts if cell in ours]
        own = [cell for cell in texts if cell not in ours]
        assert len(theirs) > len(own) > 0
        assert all(re.match("class-|workshop-|.*-(finished|catch-up)$", cell) for cell in own)
        assert all(first_lines(texts)[cell] == ours[cell] for cell in theirs)


def ids(course: Small, name: str = "01_first") -> list[str]:
    return [cell.id for cell in course.notebook(name).cells]


def test_a_cell_is_known_by_its_lesson_its_heading_and_its_number(course: Small):
    first = [f"01-first-{number}" for number in range(1, 5)]
    exercise = [f"01-exercise-1-{number}" for number in range(1, 6)]  # begins with its heading
    other = ["01-exercise-2-1", "01-exercise-2-2"]
    assert ids(course) == [*first, *exercise, *other]
    assert ids(course, "solutions/01_first") == [
        *ids(course),
        "01-exercise-2-3",
        "01-exercise-2-4",
    ]


def test_words_move_no_id_and_a_new_cell_only_those_behind_it(course: Small):
    before = ids(course)
    course.replace(FIRST, "Two ranks count.", "Two ranks count on.")
    course.replace(FIRST, "# 01 · First · 第一課", "# 01 · First · 第一堂")
    course.replace(FIRST, "你會數數。\n", "你會數數。\n\n```text\n# no heading\n```\n")
    assert course.build() == 0
    assert ids(course) == before
    course.replace(FIRST, "```python\n# BEGIN", "```python\n1 + 1\n```\n\n```python\n# BEGIN")
    assert course.build() == 0
    assert ids(course) == [*before, "01-exercise-2-3"]
    assert ids(course, "solutions/01_first")[-2:] == ["01-exercise-2-4", "01-exercise-2-5"]


def test_a_cell_of_the_class_alone_moves_none_of_the_lesson(course: Small):
    before = ids(course)
    own = '<!-- #region tags=["class"] -->\n## Minute 5 · 第 5 分鐘\n<!-- #endregion -->\n\n'
    head = '```python tags=["fold", "workshop"]\n%%writefile launch.py'
    course.replace(FIRST, head, own + head)
    assert course.build() == 0
    assert ids(course) == before
    assert "class-01-minute-5-1" in ids(course, "workshop")


def test_a_long_heading_makes_no_long_id(course: Small):
    heading = f"## {'word ' * 40}· 很長的標題"
    parameters = '```python tags=["parameters"]'
    course.replace(SECOND, parameters, f"{heading}\n\n{parameters}")
    assert course.build() == 0
    assert ids(course, "02_second")[3] == f"02-{'-'.join(['word'] * 8)}-1"


def with_other_words(course: Course, wanted: list[str]) -> None:
    """Change an English word and a Chinese one in the prose of lesson 06, in a cell so tagged."""
    [path] = [path for path in course.sources if path.stem == "06_ddp"]
    for cell in course.sources[path].cells:
        match = PROSE.fullmatch(cell.source)
        if match and cell.cell_type == "markdown" and tags(cell) == wanted:
            text = path.read_text()
            assert text.count(cell.source) == 1
            path.write_text(text.replace(cell.source, f"Otherwise{match['between']}課。"))
            return
    raise AssertionError(f"lesson 06 has no such cell, tagged {wanted}")


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The course's sources and its notebooks in a folder of their own."""
    for folder in ("notebooks", "assets", "scripts/lessons"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    for file in ("README.md", "kaggle-metadata.json"):
        shutil.copy(ROOT / file, tmp_path)
    (ROOT / "build").mkdir(exist_ok=True)
    (tmp_path / "build").symlink_to(ROOT / "build")  # which C++ has been checked
    return tmp_path


@pytest.mark.torch  # it builds the whole course twice
def test_another_word_changes_its_lesson_or_the_class_alone(copied: Path, capsys):
    lesson = ["notebooks/06_ddp.ipynb", "notebooks/solutions/06_ddp.ipynb"]
    workshop = ["notebooks/solutions/workshop.ipynb", "notebooks/workshop.ipynb"]
    for wanted, expected in (([], lesson), (["class"], workshop)):
        before = {path: path.read_text() for path in copied.glob("notebooks/**/*.ipynb")}
        with_other_words(Course(copied), wanted)
        capsys.readouterr()
        assert build.main(["--root", str(copied)]) == 0
        lines = capsys.readouterr().out.splitlines()
        written = [line for line in lines if line.endswith(": written")]
        assert sorted(written) == [f"{name}: written" for name in sorted(expected)]
        for path, text in before.items():
            known = re.findall('^   "id": .*', text, re.MULTILINE)
            assert re.findall('^   "id": .*', path.read_text(), re.MULTILINE) == known
