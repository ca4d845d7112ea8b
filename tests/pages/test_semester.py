"""The plan of a semester: every lesson in its week, and homework that exists."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parents[2]
PLAN = (ROOT / "assets" / "semester.md").read_text()
ROWS = [row.strip("| ").split(" | ") for row in PLAN.splitlines() if re.match(r"\| \d", row)]
LESSONS = {path.stem[:2]: path for path in sorted((ROOT / "notebooks" / "src").glob("*.md"))}


def test_sixteen_weeks_with_every_lesson_in_its_order() -> None:
    weeks = [week for row in ROWS for week in row[0].split("–")]
    assert weeks == [str(week) for week in range(1, 17)]
    linked = re.findall(r"\]\(\.\./notebooks/(\w+)\.ipynb\)", PLAN)
    assert linked == [path.stem for path in LESSONS.values()]
    numbers = [row[1].lstrip("[")[:2] for row in ROWS]
    assert numbers == [*list(LESSONS)[:10], "09", "10", "11", "12", "Pr"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"week {row[0]}")
def test_homework_is_in_both_languages_and_its_exercises_exist(row: list[str]) -> None:
    english, chinese = row[2].split(" · ")
    named = re.findall(r"exercises? (\d+)", english.lower())
    assert set(named) <= set(re.findall(r"練習 (\d+)", chinese))
    lesson = LESSONS.get(row[1].lstrip("[")[:2])
    if lesson:
        headings = re.findall(r"^### Exercise (\d+) ·", lesson.read_text(), re.MULTILINE)
        assert set(named) <= set(headings), f"{lesson.stem} has {headings}"
