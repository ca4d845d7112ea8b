"""Routes through the course: their minutes, what to know first, and mistakes in their file."""

import pytest
from small_course import SECOND, Small, refused

from course.facts.routes import first, short

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


def test_a_page_shows_routes_with_minutes_and_what_to_know_first(course: Small):
    course[ROUTES] = ROUTE
    course.replace(SECOND, "### Exercise 2 ·", "## Second period · 第二節\n\n### Exercise 2 ·")
    assert course.build() == 0
    page = course["assets/routes.md"]
    assert "| Late · 晚到 | 02 | 20 | 01 |\n" in page  # two periods of 10 minutes
    assert "| All · 全部 | 01 02 workshop | 125 |  |\n" in page
    assert "graph LR\n  01 --> 02\n```" in page


def test_a_route_may_end_within_a_lesson(course: Small):
    partly = ROUTE.replace(
        'lessons = ["02"]', 'lessons = ["01", "02"]\nthrough = "Half"\nneeds = []'
    )
    course[ROUTES] = partly
    words = "\n\n".join(["word " * 1800, "字"])  # ten minutes
    after = f"## Half · 一半\n\nIn it.\n\n在裡面。\n\n## Rest · 其餘\n\n{words}\n\n### Exercise 2 ·"
    course.replace(SECOND, "### Exercise 2 ·", after)
    assert course.build() == 0
    page = course["assets/routes.md"]
    assert "| Late · 晚到 | 01 02, first half · 前半 | 25 |  |\n" in page  # 15 and 10
    assert "| All · 全部 | 01 02 workshop | 130 |  |\n" in page  # 15, 25 and 90


def test_a_part_of_a_lesson_may_need_less_than_all_of_it(course: Small):
    half = '"02"]\nthrough = "Half"\nneeds = ["01"]'
    course[ROUTES] = ROUTE.replace('"02"]', half, 1)
    course.replace(
        SECOND, "### Exercise 2 ·", "## Half · 一半\n\n## Rest · 其餘\n\n### Exercise 2 ·"
    )
    assert course.build() == 0
    assert "| Late · 晚到 | 02, first half · 前半 | 10 | 01 |\n" in course["assets/routes.md"]


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
        ("[[route]]", "[[routes]]", "assets/routes.toml: it has routes, `[[route]]`, and not ['ro"),
        ("english", "englisch", "assets/routes.toml: a route has chinese, english, lessons"),
        (
            '"02"]',
            '"02"]\nthrough = "Nowhere"',
            "02_second.md: no section “Nowhere”, where a route",
        ),
        ('"01", "02"', '"01", 02', "assets/routes.toml: "),
    ],
)
def test_a_mistake_is_refused(course: Small, capsys, old: str, new: str, message: str):
    course[ROUTES] = ROUTE.replace(old, new)
    refused(course, capsys, message)
