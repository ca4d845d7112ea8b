"""Routes through the course, for the README: which lessons, how many minutes, what to know first.

The routes are in assets/routes.toml; minutes and what to know first come from the lessons, and so
does the map of which lesson needs which.
"""

import tomllib
from pathlib import Path

import build_minutes
from build_course import Course
from build_grammar import BuildError, about, demand

HEAD = [
    "| you have, or want · 你有，或想要 | lessons · 課 | minutes · 分鐘 | know first · 先會 |",
    "| --- | --- | --- | --- |",
]
WORKSHOP = "workshop"
WORKSHOP_MINUTES = 90
KEYS = {"english", "chinese", "lessons"}


def needs(course: Course) -> dict[str, list[str]]:
    """The lessons that each lesson needs, by number."""
    return {path.stem[:2]: about(source)["needs"] for path, source in course.sources.items()}


def first(chosen: list[str], needed: dict[str, list[str]]) -> list[str]:
    """What these lessons need, and what that needs in turn, without themselves."""
    reached: set[str] = set()
    waiting = list(chosen)
    while waiting:
        number = waiting.pop()
        if number not in reached:
            reached.add(number)
            waiting += needed.get(number, [])
    return sorted(reached - set(chosen))


def minutes(course: Course, path: Path) -> int:
    """Those of a lesson's core, of both periods if it has two."""
    return sum(map(int, build_minutes.told(course, path)[0].split(" + ")))


def short(numbers: list[str]) -> str:
    """`00–03 05`: lessons by their numbers, three or more in a row as a range."""
    rows: list[list[str]] = []
    for number in numbers:
        last = rows[-1][-1] if rows else ""
        follows = last.isdigit() and number.isdigit() and int(last) + 1 == int(number)
        if follows:
            rows[-1].append(number)
        else:
            rows.append([number])
    ranges = [f"{row[0]}–{row[-1]}" if len(row) > 2 else " ".join(row) for row in rows]
    return " ".join(ranges)


def read(path: Path, place: str) -> list[dict]:
    """The routes of the file; none without it."""
    try:
        return tomllib.loads(path.read_text())["route"] if path.exists() else []
    except (tomllib.TOMLDecodeError, KeyError) as error:
        problem = f"not the TOML that it should be ({error}): correct it there."
        raise BuildError(f"{place}: {problem}") from None


def routes_table(course: Course) -> str:
    """The routes as a table, and the map of needs."""
    path = course.root / "assets" / "routes.toml"
    place = course.name(path)
    paths = {source.stem[:2]: source for source in course.sources}
    needed = needs(course)
    rows = list(HEAD)
    for route in read(path, place):
        demand(set(route) == KEYS, place, f"a route has {', '.join(sorted(KEYS))}: {route}.")
        chosen = route["lessons"]
        unknown = ", ".join(number for number in chosen if number not in {*paths, WORKSHOP})
        demand(chosen and not unknown, place, f"“{route['english']}” names no lesson: {unknown}.")
        total = sum(
            WORKSHOP_MINUTES if number == WORKSHOP else minutes(course, paths[number])
            for number in chosen
        )
        before = short(first(chosen, needed))
        name = f"{route['english']} · {route['chinese']}"
        rows.append(f"| {name} | {short(chosen)} | {total} | {before} |")
    arrows = [f"  {early} --> {late}" for late, all_early in needed.items() for early in all_early]
    return "\n".join([*rows, "", "```mermaid", "graph LR", *arrows, "```"]) + "\n"
