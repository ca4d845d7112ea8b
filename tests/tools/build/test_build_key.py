"""The answer key: each week's exercises solved, each open task answered."""

import re
import textwrap

import pytest
from bs4 import BeautifulSoup
from small_course import Small, refused

from course import ROOT
from course.build.key import PLAN, TASKS, key, tasks, wanted, weeks
from course.languages import check_languages
from course.lesson import SOLUTION, Lesson, Section, divided
from course.sources import Course

pytestmark = pytest.mark.quick

COURSE = Course(ROOT)
WEEKS = weeks(COURSE)
LESSONS = {path.stem[:2]: COURSE.lesson(path, solved=False).own for path in COURSE.sources}
ROWS = """\
| week · 週 | lesson · 課 | homework · 作業 |
| --- | --- | --- |
| 1 | [01 First · 第一](../notebooks/01_first.ipynb) | Exercise 1; count. · 練習 1；數數。 |
| 2 | Project · 專題 | Yours. · 自己的。 |
"""
TASK = """\
[[task]]
english = "Three."
chinese = "三。"
"""


BOOK = Lesson.of(key(COURSE))


def printed(section: Section) -> str:
    outputs = [output for cell in section.code for output in cell.node.outputs]
    return "".join(output.get("text", "") for output in outputs)


def test_each_week_has_its_exercises_and_each_check_says_that_it_is_solved():
    _, *sections = BOOK.sections
    titles = [section.heading.text for section in sections if not section.exercise]
    assert titles == [week.title for week in WEEKS]
    own = iter(sections)
    count = 0
    for week in WEEKS:
        next(own)  # its title
        exercises = wanted(LESSONS[week.lesson], week) if week.lesson else []
        assert set(re.findall(r"[Ee]xercise (\d+);", week.homework)) <= set(exercises), week.title
        for exercise in exercises:
            section = next(own)
            assert section.exercise == exercise
            assert "✓" in printed(section) and "✗" not in printed(section)
            count += 1
    assert count > 15


def test_what_a_program_asks_for_is_shown_as_it_is_solved():
    share = (ROOT / "scripts/lessons/06_ddp/share.py").read_text()
    lines, _ = divided(SOLUTION.search(share)["lines"])
    code = textwrap.dedent("\n".join(lines))
    [shown] = [cell.source for cell in BOOK.cells if cell.source.startswith("`share.py`:")]
    assert shown.endswith(f"\n{code}\n```")


def test_open_tasks_are_answered_in_both_languages():
    answers = tasks(COURSE, len(WEEKS))
    for answer in answers:
        assert check_languages(answer) is None, answer
    numbers = 64 * 3 * 224 * 224
    assert f"{numbers:,} numbers: {4 * numbers:,} bytes in fp32, {2 * numbers:,}" in answers[1]


@pytest.fixture
def planned(course: Small) -> Small:
    course[f"assets/{PLAN}"] = ROWS
    course[f"assets/{TASKS}"] = TASK + TASK
    return course


def test_it_writes_one_file_and_nothing_else(planned: Small):
    before = planned.files()
    assert planned.build("--key") == 0
    after = planned.files()
    assert [path for path in after if path not in before] == [str(planned.root / "build/key.html")]
    assert {path: after[path] for path in before} == before
    assert "half = number / 2" in BeautifulSoup(planned["build/key.html"], "html.parser").get_text()


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        (PLAN, "# Nothing", "assets/semester.md: no row begins with a week: write `| 1 |"),
        (TASKS, TASK, "assets/homework.toml: it has 1 tasks: write one [[task]] for each of the 2"),
        (TASKS, TASK + '[[task]]\nenglish = "x"', "assets/homework.toml: task 2 needs `english`"),
        (TASKS, "[[task", "assets/homework.toml: not the TOML that it should be"),
        (PLAN, ROWS.replace("01", "77"), "assets/semester.md: there is no lesson 77."),
    ],
)
def test_a_plan_or_a_task_that_is_missing_is_named(planned: Small, capsys, path, text, message):
    planned[f"assets/{path}"] = text
    refused(planned, capsys, message, "--key")


def test_a_lesson_without_its_solved_notebook_is_named(planned: Small, capsys):
    (planned.root / "notebooks/solutions/01_first.ipynb").unlink()
    refused(planned, capsys, "01_first.ipynb: No such file", "--key")
