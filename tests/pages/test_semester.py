"""The plans of two semesters: every lesson in its week, and homework that exists."""

import re
from pathlib import Path

import pytest

from course.facts import parts
from course.lesson import headings
from course.sources import Course

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parents[2]
FIRST, SECOND = (ROOT / "assets" / "semester.md").read_text().split("\n## A second semester")
LESSONS = {path.stem[:2]: path for path in sorted((ROOT / "notebooks" / "src").glob("*.md"))}


def rows(plan: str) -> list[list[str]]:
    """Week, lesson and homework."""
    return [row.strip("| ").split(" | ") for row in plan.splitlines() if re.match(r"\| \d", row)]


def weeks(plan: str) -> list[str]:
    return [week for row in rows(plan) for week in row[0].split("–")]


def linked(plan: str) -> list[str]:
    return re.findall(r"\]\(\.\./notebooks/(\w+)\.ipynb\)", plan)


def test_sixteen_weeks_for_the_first_thirteen_lessons() -> None:
    assert weeks(FIRST) == [str(week) for week in range(1, 17)]
    numbers = [row[1].lstrip("[")[:2] for row in rows(FIRST)]
    assert numbers == [*list(LESSONS)[:10], "09", "10", "11", "12", "Pr"]


def test_a_second_semester_for_the_rest() -> None:
    assert weeks(SECOND) == [str(week) for week in range(1, len(rows(SECOND)) + 1)]
    assert linked(FIRST) + linked(SECOND) == [path.stem for path in LESSONS.values()]


def test_both_plans_name_the_parts() -> None:
    course, practice, library = parts.parts(Course(ROOT))
    for plan, part in ((FIRST, course), (FIRST, practice), (SECOND, library)):
        assert f"*{part.english}* ({part.range})" in plan
        assert f"「{part.chinese}」（{part.range}）" in plan


@pytest.mark.parametrize("row", rows(FIRST) + rows(SECOND), ids=lambda row: row[1].lstrip("[")[:2])
def test_homework_is_in_both_languages_and_its_exercises_exist(row: list[str]) -> None:
    english, chinese = row[2].split(" · ")
    named = re.findall(r"exercises? (\d+)", english.lower())
    assert set(named) <= set(re.findall(r"練習 (\d+)", chinese))
    lesson = LESSONS.get(row[1].lstrip("[")[:2])
    if lesson:
        exercises = [heading.exercise for heading in headings(lesson.read_text())]
        assert set(named) <= set(exercises), f"{lesson.stem} has {exercises}"
