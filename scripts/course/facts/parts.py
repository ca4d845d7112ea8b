"""Doors and parts, from assets/course.toml: where to begin, and what each lesson is for.

README, the site's front page and the last slide show them; each adds the minutes of the lessons.
"""

from pathlib import Path
from typing import NamedTuple

from course.facts import minutes as minutes_of
from course.facts import routes
from course.lesson import BuildError, demand
from course.listed import addresses
from course.sources import Course

NAME = "assets/course.toml"
DOOR_HEAD = ["| you have · 你有 | open · 打開 | minutes · 分鐘 |", "| --- | --- | --- |"]
LESSON_HEAD = [
    "| lesson · 課 | afterwards you can · 學完能 | minutes · 分鐘 |",
    "| --- | --- | --- |",
]


class Link(NamedTuple):
    """Where a door leads."""

    english: str
    chinese: str
    to: str  # a path in the repository


class Door(NamedTuple):
    """What somebody has, where that person begins, and how long it takes."""

    english: str
    chinese: str
    links: list[Link]
    minutes: int


class Entry(NamedTuple):
    """One lesson of a part."""

    path: Path
    number: str
    english: str
    chinese: str
    can: str  # what one can do after it
    can_chinese: str


class Part(NamedTuple):
    """Some lessons in a row, and what they are for."""

    english: str
    chinese: str
    use: str
    use_chinese: str
    done: list[list[str]]  # what one can do at its end, in both languages
    lessons: list[Entry]

    @property
    def range(self) -> str:
        """`08–12`"""
        return routes.short([lesson.number for lesson in self.lessons])


def doors(course: Course) -> list[Door]:
    """Where to begin, in the order of the file."""
    entries = []
    for entry in course.asset("course.toml").get("door", []):
        try:
            links = [Link(**link) for link in entry["links"]]
            minutes = entry.get("minutes") or routes.total(course, entry, NAME)
            entries.append(Door(entry["english"], entry["chinese"], links, minutes))
        except (KeyError, TypeError) as error:
            raise BuildError(f"{NAME}: a door lacks {error}: {entry}.") from None
    return entries


def parts(course: Course) -> list[Part]:
    """The parts with their lessons; every lesson is in one of them, in order."""
    known = {path.stem[:2]: path for path in course.sources}
    named = {title[0]: title for title in course.titles()}
    listed = []
    entries = []
    for entry in course.asset("course.toml").get("part", []):
        given = {"done": [], "lessons": {}} | entry
        lessons = []
        for number, after in given["lessons"].items():
            demand(number in known, NAME, f"there is no lesson {number}.")
            demand(len(after) == 2, NAME, f"lesson {number} has one text in each language.")
            lessons.append(Entry(known[number], *named[number], *after))
        listed += given["lessons"]
        try:
            entries.append(Part(**given | {"lessons": lessons}))
        except TypeError as error:
            raise BuildError(f"{NAME}: a part lacks {error}: {entry}.") from None
    wanted = ", ".join(known)
    remedy = f"its parts have the lessons {', '.join(listed)}, not {wanted}: each once, in order."
    demand(listed == list(known), NAME, remedy)
    return entries


def doors_table(course: Course) -> str:
    """Where to begin, for the README."""
    rows = list(DOOR_HEAD)
    for door in doors(course):
        links = []
        for link in door.links:
            links.append(f"[{link.english} · {link.chinese}]({link.to})")
            if link.to.endswith(".ipynb"):
                elsewhere = addresses(course.listed, link.to).items()
                links += [f"[{place.capitalize()}]({address})" for place, address in elsewhere]
        rows.append(f"| {door.english} · {door.chinese} | {', '.join(links)} | {door.minutes} |")
    return "\n".join(rows) + "\n"


def lessons_table(course: Course) -> str:
    """The README's list of lessons, part by part."""
    blocks = []
    for part in parts(course):
        rows = [f"### {part.english} {part.range} · {part.chinese}", ""]
        rows += [f"{part.use} · {part.use_chinese}", "", *LESSON_HEAD]
        for lesson in part.lessons:
            title = f"{lesson.number} {lesson.english} · {lesson.chinese}"
            minutes = minutes_of.told(course, lesson.path)[0]
            link = f"[{title}](notebooks/{lesson.path.stem}.ipynb)"
            rows.append(f"| {link} | {lesson.can} · {lesson.can_chinese} | {minutes} |")
        if part.done:
            rows += ["", "You are done: this is what you can do. · 學到這裡就夠用了，你已經能："]
            rows += ["", *(f"- {english} · {chinese}" for english, chinese in part.done)]
        blocks.append("\n".join(rows))
    return "\n\n".join(blocks) + "\n"


def said(element: str, english: str, chinese: str) -> str:
    """A text of a slide, as an element for each language."""
    return (
        f'<{element} lang="en">{english}</{element}><{element} lang="zh-TW">{chinese}</{element}>'
    )


def part_items(course: Course) -> str:
    """The parts as cards of a slide."""
    items = []
    for part in parts(course):
        name = f"<b>{part.range}</b> {said('span', part.english, part.chinese)}"
        use = said("p", part.use, part.use_chinese)
        items.append(f'<div><p class="term">{name}</p>{use}</div>\n')
    return "".join(items)
