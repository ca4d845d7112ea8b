"""Rooms and routes: which lesson may write which program, and which lessons a lesson needs."""

from pathlib import Path

from course import rooms
from course.sources import Course
from course.lesson import Lesson, about, demand
from course.build.kinds import check_kind

LAUNCHED = (".py", ".cpp", ".sh")  # `result("ddp")` knows them without their ending


def check_names(course: Course) -> None:
    """No two files of one name: in a notebook's folder all of them lie side by side."""
    seen: dict[str, Path] = {}
    for path in rooms.files(course.lessons):
        name = path.stem if path.suffix in LAUNCHED else path.name
        first = seen.setdefault(name, path)
        remedy = f"{course.name(first)} has the same name, and in a notebook's folder they meet."
        demand(first is path, course.name(path), f"{remedy} Rename one.")


def writers(course: Course) -> dict[str, list[str]]:
    """For each file that a `%%writefile` cell names, the lessons that write it."""
    lessons: dict[str, list[str]] = {}
    for path, source in course.sources.items():
        for name in Lesson.of(source).files:
            lessons.setdefault(name, []).append(path.stem)
    return lessons


def check_rooms(course: Course) -> None:
    """A lesson writes every program of its room, and no other lesson does; common/ has the rest."""
    lessons = writers(course)
    home = course.name(course.lessons)
    for path in rooms.files(course.lessons):
        place = course.name(path)
        room = path.parent.name
        written = lessons.get(path.name, [])
        remedy = f"no lesson writes it: delete it, or write it in a cell `%%writefile {path.name}`."
        demand(written, place, remedy)
        if room == rooms.COMMON:
            remedy = f"only {written[0]} writes it: move it to {home}/{written[0]}."
            demand(len(written) > 1, place, remedy)
            continue
        others = ", ".join(lesson for lesson in written if lesson != room)
        to = written[0] if len(written) == 1 else rooms.COMMON
        remedy = f"its own lesson does not write it, but {others} does: move it to {home}/{to}."
        demand(room in written, place, remedy)
        demand(not others, place, f"{others} writes it, too: move it to {home}/{rooms.COMMON}.")


def check_programs(course: Course) -> None:
    """Check every file of every room by itself."""
    check_names(course)
    for path in rooms.files(course.lessons):
        check_kind(course, path)


def check_needs(course: Course) -> None:
    """Every lesson says which earlier lessons one must know for it."""
    numbers = [path.stem[:2] for path in course.sources]
    for path, source in course.sources.items():
        place = course.name(path)
        needs = about(source).get("needs")
        given = isinstance(needs, list) and all(isinstance(number, str) for number in needs)
        example = '`needs: ["05"]`, or `needs: []`'
        demand(given, place, f"name in its front matter the lessons to know first: {example}.")
        for number in needs:
            problem = f"it needs lesson {number}, which does not"
            demand(number in numbers, place, f"{problem} exist: correct `needs`.")
            earlier = number < path.stem[:2]
            demand(earlier, place, f"{problem} come before it: correct `needs`.")
