"""Rooms and routes: programs in the wrong room, or written by nobody; what a lesson may need."""

import pytest
from small_course import BESIDE, FIRST, PROGRAM, ROOMS, SECOND, Small, refused

pytestmark = pytest.mark.quick

EXTRA = "print(1)\n"
COMMON = f"{ROOMS}/common"


def write_in(course: Small, lesson: str, name: str) -> None:
    """Give a lesson a cell that writes one more program."""
    head = {FIRST: "```python\n# BEGIN", SECOND: "```python\nfrom launch"}[lesson]
    course.replace(lesson, head, f"```python\n%%writefile {name}\n```\n\n{head}")


def test_a_program_that_its_own_lesson_does_not_write_is_refused(course: Small, capsys):
    path = f"{ROOMS}/01_first/extra.py"
    course[path] = EXTRA
    write_in(course, SECOND, "extra.py")
    remedy = "its own lesson does not write it, but 02_second does: move it to"
    refused(course, capsys, f"{path}: {remedy} {ROOMS}/02_second.")


def test_a_program_of_a_room_without_a_lesson_is_refused(course: Small, capsys):
    path = f"{ROOMS}/99_gone/extra.py"
    course[path] = EXTRA
    write_in(course, FIRST, "extra.py")
    write_in(course, SECOND, "extra.py")
    remedy = "its own lesson does not write it, but 01_first, 02_second does: move it to"
    refused(course, capsys, f"{path}: {remedy} {COMMON}.")


@pytest.mark.parametrize("room", ["01_first", "common"])
def test_a_program_that_no_lesson_writes_is_refused(course: Small, capsys, room: str):
    path = f"{ROOMS}/{room}/extra.py"
    course[path] = EXTRA
    remedy = "no lesson writes it: delete it, or write it in a cell `%%writefile extra.py`."
    refused(course, capsys, f"{path}: {remedy}")


def test_a_common_program_that_one_lesson_writes_is_refused(course: Small, capsys):
    path = f"{COMMON}/extra.py"
    course[path] = EXTRA
    write_in(course, FIRST, "extra.py")
    refused(course, capsys, f"{path}: only 01_first writes it: move it to {ROOMS}/01_first.")
    write_in(course, SECOND, "extra.py")
    assert course.build() == 0


def test_two_programs_of_one_name_are_refused(course: Small, capsys):
    path = f"{ROOMS}/02_second/alpha.py"
    course[path] = EXTRA
    remedy = f"{path} has the same name, and in a notebook's folder they meet. Rename one."
    refused(course, capsys, f"{PROGRAM}: {remedy}")


def test_two_launched_files_of_one_name_are_refused_and_a_setting_is_not(course: Small, capsys):
    path = f"{ROOMS}/01_first/alpha.yaml"
    course[path] = "lr: 0.1\n"
    write_in(course, FIRST, "alpha.yaml")
    assert course.build() == 0
    course[f"{ROOMS}/01_first/alpha.sh"] = "python alpha.py\n"
    refused(course, capsys, f"{PROGRAM}: {ROOMS}/01_first/alpha.sh has the same name")


def test_a_lesson_that_writes_a_program_of_another_room_is_refused(course: Small, capsys):
    write_in(course, FIRST, "beta.py")
    refused(course, capsys, f"{BESIDE}: 01_first writes it, too: move it to {COMMON}.")


NEEDS = {
    "nothing said": ("    needs: []\n", "", f"{FIRST}: name in its front matter the lessons to"),
    "no list": ("needs: []", 'needs: "00"', f"{FIRST}: name in its front matter the lessons"),
    "no text": ("needs: []", "needs: [1]", f"{FIRST}: name in its front matter the lessons to"),
    "unknown": ("needs: []", 'needs: ["00"]', f"{FIRST}: it needs lesson 00, which does not exist"),
    "itself": ("needs: []", 'needs: ["01"]', f"{FIRST}: it needs lesson 01, which does not come"),
    "a later one": ("needs: []", 'needs: ["02"]', f"{FIRST}: it needs lesson 02, which does not"),
}


@pytest.mark.parametrize(("old", "new", "message"), NEEDS.values(), ids=NEEDS)
def test_what_a_lesson_cannot_need_is_refused(course: Small, capsys, old, new, message):
    course.replace(FIRST, old, new)
    refused(course, capsys, message)
