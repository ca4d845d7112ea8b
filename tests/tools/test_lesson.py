"""The object `Lesson`: what it makes of headings, cells, exercises and checks."""

import os

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell
from ranks import in_kernel

from course import rooms
from course.build.lessons import MISSING
from course.lesson import Cell, Lesson, bundle, headings

pytestmark = pytest.mark.quick

CHECK = 'print("✓" if x == 2 else "✗ not yet")'
REGION = "# BEGIN SOLUTION\nx = 2\n# STUB x = 0\n# END SOLUTION\n"
PROSE = """# 01 · First · 第一課

```python
# no heading
```

<!--
## hidden
-->

## Two ways · 兩種做法"""


def code(text: str, *tags: str) -> Cell:
    return Cell(new_code_cell(text, metadata={"tags": list(tags)} if tags else {}))


def prose(text: str) -> Cell:
    return Cell(new_markdown_cell(text))


def lesson() -> Lesson:
    return Lesson(
        [
            code("import handin"),
            prose(PROSE),
            code("%%writefile ddp.py\nx = 1"),
            code("!NCCL_DEBUG=INFO torchrun --standalone --nproc-per-node=4 ddp.py --n {N}"),
            code("between = 1", "class"),
            prose("### Exercise 1 · 練習 1\n\nWrite."),
            code(REGION + CHECK),
            code(CHECK.replace("2", "3")),
            prose("### Exercise 2 · 練習 3"),
            code(CHECK.replace("2", "4")),
        ]
    )


def test_a_heading_is_none_in_code_or_in_a_comment() -> None:
    first, second = headings(PROSE)
    assert (first.level, first.text, first.at) == (1, "01 · First · 第一課", 0)
    assert (second.english, second.slug) == ("Two ways", "two-ways")
    assert PROSE[second.at :].startswith("## Two ways")


@pytest.mark.parametrize(
    ("text", "exercise"),
    [
        ("### Exercise 12 · 練習 12", "12"),
        ("### Exercise 2 · 練習 3", ""),
        ("## Exercise 2 · 練習 2", ""),
        ("### Exercise 2 · 練習 2 more", ""),
    ],
)
def test_an_exercise_is_known_by_its_whole_heading(text: str, exercise: str) -> None:
    assert headings(text)[0].exercise == exercise


def test_cells_belong_to_the_last_heading_above() -> None:
    sections = lesson().sections
    titles = [section.heading.text if section.heading else "" for section in sections]
    wanted = ["", "Two ways · 兩種做法", "Exercise 1 · 練習 1", "Exercise 2 · 練習 3"]
    assert titles == wanted
    assert [len(section.cells) for section in sections] == [1, 4, 3, 2]
    assert [section.exercise for section in sections] == ["", "", "1", ""]
    assert sections[2].words == "### Exercise 1 · 練習 1\n\nWrite."


def test_files_launches_and_the_cells_of_the_class() -> None:
    whole = lesson()
    assert whole.files == {"ddp.py": "x = 1"}
    [launch] = whole.launches
    assert (launch.name, launch.ranks, launch.settings) == ("ddp", "4", ("NCCL_DEBUG=INFO",))
    assert len(whole.own.cells) == len(whole.cells) - 1
    assert [cell.source for cell in whole.tagged("class")] == ["between = 1"]


def test_one_cell_writes_several_files_and_knows_them() -> None:
    files = {"a.py": "x = 1\n\n# $HOME `ls` \\n", "b.json": "{}"}
    cell = code(bundle(files), "fold")
    assert cell.files == files
    assert (cell.file, cell.launch, cell.is_check) == ("", None, False)
    assert code(bundle(files | {"a.py": CHECK})).is_check is False
    assert code("%%writefile a.py b.json").files == {"a.py": "", "b.json": ""}
    assert code("%%bash\nls").files == {}


def test_a_kernel_writes_them_byte_for_byte_and_without_bash_the_import_says_so(tmp_path) -> None:
    there = {path.name: path.read_text().rstrip("\n") for path in rooms.files()}
    cells = [bundle(there), "from launch import result" + MISSING]
    for folder, path in (("with", os.environ["PATH"]), ("without", str(tmp_path / "nothing"))):
        place = tmp_path / folder
        place.mkdir()
        (_, said), (imported, _) = in_kernel(place, cells, PATH=path)
        if folder == "with":
            assert imported == "ok"
            assert {each.name: each.read_text() for each in place.glob("*.*")} == {
                name: f"{text}\n" for name, text in there.items()
            }
        else:
            assert imported.startswith("ModuleNotFoundError: No module named 'launch'")
            assert "bash" in said


def test_a_file_that_cannot_be_written_stops_the_cell(tmp_path) -> None:
    (tmp_path / "a.py").mkdir()
    [(ending, _)] = in_kernel(tmp_path, [bundle({"a.py": "x", "b.py": "y"})])
    assert ending.startswith("CalledProcessError") and not (tmp_path / "b.py").exists()


def test_a_lesson_has_the_title_that_stands_in_both_languages() -> None:
    assert lesson().title == "01 · First · 第一課"
    assert Lesson([prose("# My notes"), *lesson().cells]).title == "01 · First · 第一課"
    assert Lesson([code("1")]).title == ""


def test_a_title_is_found_by_its_english_alone() -> None:
    heading, cell = lesson().find("Two ways")
    assert heading.text == "Two ways · 兩種做法" and not cell.is_code
    assert lesson().find("Two") is None


def test_checks_belong_to_exercises_or_are_exercises_themselves() -> None:
    assert [exercise for _, exercise in lesson().checks()] == ["1", "1"]
    assert [exercise for _, exercise in lesson().checks(numbered=False)] == ["1", "2", "3"]


def test_a_check_is_known_by_its_lines_below_the_exercise() -> None:
    assert code(REGION + CHECK).ending == code(CHECK).ending
    assert code(CHECK.replace("2", "3")).ending != code(CHECK).ending
    assert code(CHECK).ending.startswith("1:")
    assert not code(f"%%writefile handin.py\n{CHECK}").is_check


def test_what_was_written_stays_when_the_source_is_filled() -> None:
    cell = code("handin.line()")
    cell.source = "handin.line(1)"
    assert (cell.written, cell.node.source) == ("handin.line()", "handin.line(1)")
