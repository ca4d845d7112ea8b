"""What the build adds to exercises: the lines to write in, and the checks for the last cell."""

import pytest
from nbformat.v4 import new_code_cell
from small_course import FIRST, TOOLBOX, Small, refused

from course.lesson import Cell

pytestmark = pytest.mark.quick

CHECK = 'print("✓" if guess == 42 else "not yet")'
REAL = 'print("✓" if guess == 42 else "✗ not yet")'
LAST = """
## Hand in · 交作業

```python tags=["hand-in"]
handin.line()
```
"""
HANDIN = "scripts/lessons/common/handin.py"
WRITES = """
```python
import handin
```
"""


def check(cell: str) -> str:
    return Cell(new_code_cell(cell)).ending


@pytest.fixture
def ending(course: Small) -> Small:
    """A course whose lessons end with a line to hand in."""
    course[HANDIN] = "def line(name, exercises): ...\n"
    for path in (FIRST, "notebooks/src/02_second.md"):
        course[path] += WRITES + LAST
        course.replace(path, "%%writefile launch.py", "%%writefile handin.py launch.py")
    course.replace(FIRST, CHECK, REAL)
    return course


def test_the_text_above_a_program_says_in_which_line_to_write(course: Small):
    assert course.build() == 0
    cells = course.notebook().cells
    [at] = [n for n, cell in enumerate(cells) if cell.source.startswith("%%writefile tools.py")]
    lines = cells[at].source.splitlines()
    number = next(n for n, line in enumerate(lines, 1) if "your code here" in line)
    above = cells[at - 1].source
    assert "### Exercise 1 · 練習 1\n\nYour code" in above
    assert f"Your code goes into the cell below, `tools.py`: line {number}, after ▼▼▼." in above
    assert f"請寫在下面這一格 `tools.py` 的第 {number} 行，▼▼▼ 之後。" in above
    solved = [cell.source for cell in course.notebook("solutions/01_first").cells]
    assert not any("Your code goes" in text for text in solved)


def test_a_program_above_its_exercise_runs_as_it_is_first(course: Small):
    course.replace(FIRST, "### Exercise 1 · 練習 1", "### A tool · 工具")
    course.replace(FIRST, "### Exercise 2 · 練習 2", "### Exercise 1 · 練習 1")
    more = "# BEGIN SOLUTION\nmore = 1\n# STUB more = 0\n# END SOLUTION"
    course[FIRST] += f"\n### Exercise 2 · 練習 2\n\n```python\n{more}\n```\n"
    assert course.build() == 0
    [text] = [cell.source for cell in course.notebook().cells if "after ▼▼▼" in cell.source]
    assert "as it is: Exercise 1, further down, will ask you to write in its line" in text
    assert "先照原樣執行下面這一格 `tools.py`：後面的練習 1 會請你寫在第" in text
    assert course.build("--check") == 0


def test_the_exercise_that_names_the_program_is_the_one_that_asks(course: Small):
    course.replace(FIRST, "### Exercise 1 · 練習 1", "### A tool · 工具")
    course.replace(FIRST, "### Exercise 2 · 練習 2", "### Exercise 1 · 練習 1")
    course[FIRST] += "\n### Exercise 2 · 練習 2\n\nIn `tools.py`.\n\n在 `tools.py`。\n"
    course[FIRST] += "\n```python\n# BEGIN SOLUTION\nA = 1\n# STUB A = 0\n# END SOLUTION\n```\n"
    assert course.build() == 0
    [text] = [cell.source for cell in course.notebook().cells if "after ▼▼▼" in cell.source]
    assert "as it is: Exercise 2, further down" in text and "後面的練習 2 會請你" in text


def test_two_places_are_both_named_and_the_workshop_has_its_own(course: Small):
    course.replace(
        TOOLBOX,
        "    # END SOLUTION\n",
        "    # END SOLUTION\n# BEGIN LIVE\nA = 1\n# STUB A = 0\n# END LIVE\n",
    )
    assert course.build() == 0
    texts = [
        "\n".join(cell.source for cell in course.notebook(name).cells)
        for name in ("01_first", "workshop")
    ]
    assert "`tools.py`: line 6, after ▼▼▼." in texts[0]
    assert texts[1].count("Your code goes into") == texts[1].count("請寫在下面") <= 1


def test_the_last_cell_knows_the_checks(ending: Small):
    assert ending.build() == 0
    assert ending.code()[-1] == f'handin.line("01_first", {{\n    "2": ["{check(REAL)}"],\n}})'
    for name in ("01_first", "solutions/01_first"):
        assert check(REAL) in ending.code(name)[-1], "the same in both"
    assert check(
        f"# BEGIN SOLUTION\nguess = 1\n# STUB guess = 0\n# END SOLUTION\n{REAL}\n"
    ) == check(REAL)
    assert check(f"{REAL}\n{REAL}").startswith("2:")


def test_two_checks_with_one_end_are_refused(ending: Small, capsys):
    ending.replace(
        FIRST,
        "### Exercise 2",
        f"### Exercise 3 · 練習 3\n\n```python\nguess = 1\n{REAL}\n```\n\n### Exercise 2",
    )
    ending.replace(
        FIRST, f"# END SOLUTION\n{REAL}", f"guess = 1\n# END SOLUTION\nguess = 1\n{REAL}"
    )
    refused(ending, capsys, "another check ends with the same lines.")


def test_another_call_is_refused(ending: Small, capsys):
    ending.replace(FIRST, "handin.line()", 'handin.line("mine")')
    refused(ending, capsys, "a cell tagged `hand-in` says `handin.line()`.")
