"""Routes through the course: their minutes, what to know first, and mistakes in their file."""

import pytest
from small_course import SECOND, Small, refused

from build_routes import first, short

pytestmark = pytest.mark.quick

ROUTES = "assets/routes.toml"
ROUTE = """[[route]]
english = "Late"
chinese = "晚到"
lessons = ["02"]

[[route]]
english = "All"
chinese = "全部"
lessons = ["01", "02", "workshop"]
"""


def test_the_readme_shows_routes_with_minutes_and_what_to_know_first(course: Small):
    course[ROUTES] = ROUTE
    course.replace(SECOND, "### Exercise 2 ·", "## Second period · 第二節\n\n### Exercise 2 ·")
    assert course.build() == 0
    readme = course["README.md"]
    assert "| Late · 晚到 | 02 | 10 | 01 |\n" in readme  # two periods of 5 minutes
    assert "| All · 全部 | 01 02 workshop | 110 |  |\n" in readme
    assert "graph LR\n  01 --> 02\n```" in readme


def test_what_is_needed_is_followed_to_its_beginning():
    needed = {"00": [], "01": ["00"], "02": ["01"], "03": ["00", "02"], "04": ["01"]}
    assert first(["03"], needed) == ["00", "01", "02"]
    assert first(["03", "01"], needed) == ["00", "02"]
    assert first(["00", "workshop"], needed) == []


def test_three_in_a_row_are_a_range():
    assert short(["00", "01", "02", "05", "06", "08", "workshop"]) == "00–02 05 06 08 workshop"
    assert short(["workshop"]) == "workshop"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('["02"]', '["07"]', "assets/routes.toml: “Late” names no lesson: 07."),
        ('["02"]', "[]", "assets/routes.toml: “Late” names no lesson: ."),
        ("english", "englisch", "assets/routes.toml: a route has chinese, english, lessons"),
        ('"01", "02"', '"01", 02', "assets/routes.toml: "),
    ],
)
def test_a_mistake_is_refused(course: Small, capsys, old: str, new: str, message: str):
    course[ROUTES] = ROUTE.replace(old, new)
    refused(course, capsys, message)
