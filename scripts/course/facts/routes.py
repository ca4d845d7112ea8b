"""Routes through the course: which lessons, how many minutes, what to know first.

The routes are in assets/routes.toml; minutes and what to know first come from the lessons, and so
does the map of which lesson needs which. assets/routes.md and the site show them.
"""

from pathlib import Path

from course.facts.minutes import beginning, told
from course.lesson import WORKSHOP, about, demand
from course.sources import Course

HEAD = [
    "| you have, or want · 你有，或想要 | lessons · 課 | minutes · 分鐘 | know first · 先會 |",
    "| --- | --- | --- | --- |",
]
WORKSHOP_MINUTES = 90
KEYS = {"english", "chinese", "lessons"}
# Only up to the end of this section of the last lesson; and what that much of it needs.
PARTLY = {"through", "needs"}


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
    return sum(map(int, told(course, path)[0].split(" + ")))


def total(course: Course, entry: dict, place: str) -> int:
    """The minutes of the lessons of a route or a door; of the last one perhaps only the beginning.

    entry: `lessons`, and perhaps `through`, the section with which the last one ends.
    """
    paths = {source.stem[:2]: source for source in course.sources}
    chosen = entry["lessons"]
    unknown = ", ".join(number for number in chosen if number not in {*paths, WORKSHOP})
    demand(chosen and not unknown, place, f"“{entry['english']}” names no lesson: {unknown}.")
    count = 0
    for number in chosen:
        count += WORKSHOP_MINUTES if number == WORKSHOP else minutes(course, paths[number])
    if "through" in entry:
        last = paths[chosen[-1]]
        count -= minutes(course, last)
        count += beginning(course, last, entry["through"])
    return count


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


def routes_table(course: Course, plan: str = "semester.md") -> str:
    """The routes as a table, and the map of needs; `plan`: where their link to it leads."""
    place = "assets/routes.toml"
    listed = course.asset("routes.toml")
    demand(listed.keys() <= {"route"}, place, f"it has routes, `[[route]]`, and not {[*listed]}.")
    needed = needs(course)
    rows = list(HEAD)
    for route in listed.get("route", []):
        right = KEYS <= set(route) <= KEYS | PARTLY
        known = f"{', '.join(sorted(KEYS))}, and perhaps {', '.join(sorted(PARTLY))}"
        demand(right, place, f"a route has {known}: {route}.")
        chosen = route["lessons"]
        count = total(course, route, place)
        before = first(route.get("needs", chosen), needed)
        before = sorted({*before, *route.get("needs", [])})
        name = f"{route['english']} · {route['chinese']}".replace("semester.md", plan)
        lessons = short(chosen)
        if "through" in route:
            lessons += ", first half · 前半"
        rows.append(f"| {name} | {lessons} | {count} | {short(before)} |")
    arrows = [f"  {early} --> {late}" for late, all_early in needed.items() for early in all_early]
    return "\n".join([*rows, "", "```mermaid", "graph LR", *arrows, "```"]) + "\n"
