"""What a student wrote into the exercises: the lines between ours, found in the student's cells.

Students change lines that are not theirs, too; Kaggle may drop the ids of cells. So a cell is known
by its id or by our lines in it, and a region is what is between our lines before and after it.
"""

import re
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from build_grammar import HERE
from grade_lessons import Lesson, Place
from grade_read import Cell, squeezed

ANCHOR = 4  # how many of our lines next to a region tell where it ends, when some were changed
ALIKE = 0.6  # from here on (of 1) lines count as ours, changed
KNOWN = 0.3  # share of our lines that a student's cell has at least, to be known as ours
UNREADABLE = "could not be read"
CHANGED = "the lines around it were changed: look at them"


@dataclass
class Answer:
    """The regions of one cell as a student filled them."""

    regions: list[list[str]] = field(default_factory=list)
    above: list[str] = field(default_factory=list)  # what the student put above our first line
    head: bool = True  # our lines before the first region are to be put in
    tail: bool = True  # and our lines after the last
    note: str = ""  # what is unusual


def solid(lines: list[str]) -> list[str]:
    """What lines say, without their indentation; empty ones are left out."""
    return [text for text in map(squeezed, lines) if text]


def trimmed(lines: list[str]) -> list[str]:
    """The lines of a region without ▼▼▼, and without empty ones above and below."""
    kept = "\n".join(line for line in lines if HERE not in line)
    return re.sub(r"\A(?:[ \t]*\n)+|\s+\Z", "", kept).split("\n")


def find(block: list[str], lines: list[str], start: int, last: bool = False) -> int | None:
    """Where a block of lines begins in others, from `start` on: the first place, or the last."""
    found = [at for at in range(start, len(lines)) if lines[at : at + len(block)] == block]
    return found[-1 if last else 0] if found else None


def guess(block: list[str], lines: list[str], start: int) -> int | None:
    """Where a block probably begins, of which some lines were changed."""
    best = None
    most = ALIKE
    for at in range(start, len(lines)):
        there = "\n".join(lines[at : at + len(block)])
        ratio = SequenceMatcher(None, "\n".join(block), there, autojunk=False).ratio()
        if ratio > most:
            most = ratio
            best = at
    return best


def begin(before: list[str], lines: list[str], start: int, mark: int | None) -> int | None:
    """The line after ours between two regions: after the whole of them, at ▼▼▼, or probably."""
    if lines[start : start + len(before)] == before:
        return start + len(before)
    if mark is not None:
        return mark
    at = guess(before[-ANCHOR:], lines, start)
    return None if at is None else at + len(before[-ANCHOR:])


def end(after: list[str], lines: list[str], start: int, last: bool) -> int | None:
    """The first of our lines after a region."""
    if not after:
        return len(lines)
    at = find(after, lines, start, last)
    return guess(after[:ANCHOR], lines, start) if at is None else at


def extract(place: Place, text: str) -> Answer:
    """The regions of a student's cell.

    Where the lines ahead of the first one were changed, the student's are taken; and so are those
    after it in a cell, if ours are not there. A program is not run without ours, which measure it.
    """
    whole = text.splitlines()
    written = [number for number, line in enumerate(whole) if squeezed(line)]
    lines = solid(whole)
    marks = [at for at, number in enumerate(written) if HERE in whole[number]]
    known = marks if len(marks) == len(place.stubs) else [None] * len(place.stubs)
    fixed = [solid(part) for part in place.fixed]
    answer = Answer()

    first = find(fixed[0], lines, 0)
    if first is None:
        answer.head = False
        answer.note = CHANGED
        at = 0
    else:
        answer.above = whole[: written[first]] if first and not place.program else []
        at = first + len(fixed[0])
    for number, mark in enumerate(known):
        if number:
            at = begin(fixed[number], lines, at, mark)
        stop = None if at is None else end(fixed[number + 1], lines, at, number == len(known) - 1)
        if stop is None and place.program:
            return Answer(list(place.stubs), note=UNREADABLE)
        if stop is None:
            answer.tail = False
            answer.note = CHANGED
            stop = len(lines)
        upper = written[at - 1] + 1 if at else 0
        lower = written[stop] if stop < len(written) else len(whole)
        answer.regions.append(trimmed(whole[upper:lower]))
        at = stop
    return answer


def likeness(place: Place, text: str) -> float:
    """How much of a cell of ours is in a student's: 0, or up to 2."""
    lines = text.splitlines()
    theirs = solid(lines)
    writes = next(iter(lines), "").strip()
    if place.program and writes.startswith("%%") and writes != f"%%writefile {place.program}":
        return 0.0
    if not place.program and writes.startswith("%%writefile"):
        return 0.0
    ours = [line for part in place.fixed for line in solid(part)]
    share = sum(line in theirs for line in ours) / max(1, len(ours))
    marked = place.stubs[0][0].strip() in map(str.strip, lines)
    if share < KNOWN and not marked:
        return 0.0
    whole = SequenceMatcher(None, solid(place.lines()), theirs, autojunk=False).ratio()
    return share + whole


def answers(lesson: Lesson, cells: list[Cell]) -> dict[int, Answer]:
    """What was written into each cell of a lesson that has regions, by the cell's number.

    Each cell of the student is taken once: first those with our ids, then whichever are most alike.
    """
    ours = {squeezed(c.source) for n, c in enumerate(lesson.cells) if n not in lesson.places}
    free = [cell for cell in cells if squeezed(cell.text) not in ours]
    pairs = []
    for number, place in lesson.places.items():
        for index, cell in enumerate(free):
            alike = likeness(place, cell.text)
            same = cell.id == lesson.cells[number].id
            if alike or same:
                pairs.append((same, alike, -number, -index))
    found: dict[int, Answer] = {}
    taken: set[int] = set()
    for _, _, number, index in sorted(pairs, reverse=True):
        if -number not in found and -index not in taken:
            found[-number] = extract(lesson.places[-number], free[-index].text)
            taken.add(-index)
    for number, place in lesson.places.items():
        if number not in found:
            found[number] = Answer(list(place.stubs), note="its cell is not there")
    return found
