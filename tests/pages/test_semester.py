"""The plans of two semesters: every lesson in its week, and homework that exists."""

import re
from pathlib import Path

import pytest

from course.facts import minutes, parts
from course.lesson import headings
from course.sources import Course

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parents[2]
COURSE = Course(ROOT)
FIRST, SECOND = (ROOT / "assets" / "semester.md").read_text().split("\n## A second semester")
LESSONS = {path.stem[:2]: path for path in COURSE.sources}


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
    assert numbers == [*list(LESSONS)[:10], "09", "10", "11", "12", "Pr", "Ex"]


def test_a_second_semester_for_the_rest() -> None:
    assert weeks(SECOND) == [str(week) for week in range(1, len(rows(SECOND)) + 1)]
    assert linked(FIRST) + linked(SECOND) == [path.stem for path in LESSONS.values()]


def test_both_plans_name_the_parts() -> None:
    course, practice, library = parts.parts(COURSE)
    for plan, part in ((FIRST, course), (FIRST, practice), (SECOND, library)):
        assert f"*{part.english}* ({part.range})" in plan
        assert f"「{part.chinese}」（{part.range}）" in plan


def test_the_parts_have_their_weeks() -> None:
    course, practice, _ = parts.parts(COURSE)
    in_week = {row[1].lstrip("[")[:2]: int(row[0].partition("–")[0]) for row in rows(FIRST)}
    begin = in_week[practice.lessons[0].number]
    assert in_week[course.lessons[-1].number] == begin - 1
    assert f"Weeks 1–{begin - 1} are the *{course.english}*" in FIRST
    assert f"weeks {begin}–16 are *{practice.english}*" in FIRST
    assert f"第 1–{begin - 1} 週是「{course.chinese}」" in FIRST
    assert f"第 {begin}–16 週是「{practice.chinese}」" in FIRST


def test_a_lesson_has_as_many_weeks_as_periods() -> None:
    numbers = [row[1].lstrip("[")[:2] for row in rows(FIRST) + rows(SECOND)]
    for number, path in LESSONS.items():
        periods = minutes.told(COURSE, path)[0].split(" + ")
        assert numbers.count(number) == len(periods)
        assert (f"(lesson {number} takes two)" in FIRST) == (len(periods) == 2)
        assert (f"（第 {number} 課是兩節）" in FIRST) == (len(periods) == 2)
    assert f"one period of {minutes.CORE} minutes" in FIRST
    assert f"核心一節 {minutes.CORE} 分鐘" in FIRST


def test_the_routes_of_semesters_have_the_plans_lessons() -> None:
    chosen = COURSE.asset("routes.toml")["route"]
    planned = [route for route in chosen if "(semester.md)" in route["english"]]
    first, second = planned
    for route, plan in ((first, FIRST), (second, SECOND)):
        assert route["lessons"] == [name[:2] for name in linked(plan)]
    for text in (first["english"], FIRST):
        assert "semester of 16 weeks" in text
    for text in (first["chinese"], FIRST):
        assert "一學期 16 週" in text


@pytest.mark.parametrize("row", rows(FIRST) + rows(SECOND), ids=lambda row: row[1].lstrip("[")[:2])
def test_homework_is_in_both_languages_and_its_exercises_exist(row: list[str]) -> None:
    english, chinese = row[2].split(" · ")
    named = re.findall(r"exercises? (\d+)", english.lower())
    assert set(named) <= set(re.findall(r"練習 (\d+)", chinese))
    lesson = LESSONS.get(row[1].lstrip("[")[:2])
    if lesson:
        exercises = [heading.exercise for heading in headings(lesson.read_text())]
        assert set(named) <= set(exercises), f"{lesson.stem} has {exercises}"
