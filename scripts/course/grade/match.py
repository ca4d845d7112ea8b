"""What a student wrote into the exercises: the lines between ours, found in the student's cells.

Students change lines that are not theirs, too; Kaggle may drop the ids of cells. So a cell is known
by its id and by our lines in it, and a region is what is between our lines before and after it.
"""

import re
from difflib import SequenceMatcher
from typing import NamedTuple

from course.grade.read import Place, Workbook, Written, squeezed
from course.lesson import HERE, file_of

ALIKE = 0.3  # from here on (of 1) a student's cell may be one of ours, filled
UNREADABLE = "could not be read"
CHANGED = "our lines around it were changed; they were put back"
WHOLE = "our lines around it were not found: the whole cell counts as the answer, look at it"
MISSING = "its cell is not there"


class Answer(NamedTuple):
    """A cell of ours as a student filled it, without our check."""

    lines: list[str]
    note: str = ""  # what is unusual


def solid(lines: list[str]) -> list[str]:
    """What lines say, without their indentation; empty ones are left out."""
    return [text for text in map(squeezed, lines) if text]


def trimmed(lines: list[str]) -> list[str]:
    """The lines of a region without ▼▼▼, and without empty ones above and below."""
    kept = "\n".join(line for line in lines if HERE not in line)
    return re.sub(r"\A(?:[ \t]*\n)+|\s+\Z", "", kept).split("\n")


def find(pieces: list[list[str]], lines: list[str], start: int, last: bool = False) -> range | None:
    """Where the first of these pieces that is there at all is in lines, from `start` on."""
    for piece in pieces:
        size = len(piece)
        places = range(start, len(lines) - size + 1)
        starts = [at for at in places if lines[at : at + size] == piece]
        if starts:
            at = starts[-1 if last else 0]
            return range(at, at + size)
    return None


def before(block: list[str], mark: str) -> list[list[str]]:
    """What tells where a region begins: our lines above it, or the end of them with ▼▼▼, or it."""
    ends = [block[at:] for at in range(len(block) + 1)]
    return [block, *[[*end, mark] for end in ends], *filter(None, ends)]


def after(block: list[str]) -> list[list[str]]:
    """What tells where a region ends: our lines below it, or the beginning of them."""
    return [block, *[block[:size] for size in range(len(block) - 1, 0, -1)]]


def borders(place: Place, blocks: list[list[str]], theirs: list[str]) -> list[range] | None:
    """Where our lines above and below each region are, in turn; None if one cannot be told."""
    ranges = [range(0)]
    for number, stub in enumerate(place.stubs):
        last = number == len(place.stubs) - 1
        above = find(before(blocks[number], squeezed(stub[0])), theirs, ranges[-1].start)
        if above is None:
            return None
        below = find(after(blocks[number + 1]), theirs, above.stop, last)
        if below is None:
            return None
        ranges += [above, below]
    return ranges[1:]


def extract(place: Place, text: str) -> Answer:
    """Our cell with the regions of a student's.

    A program is not run without our lines, which measure it; any other cell is then taken whole.
    """
    whole = text.splitlines()
    written = [number for number, line in enumerate(whole) if squeezed(line)]
    starts = [*written, len(whole)]  # which line each of theirs is
    theirs = solid(whole)
    blocks = [solid(block) for block in place.fixed]
    blocks[-1] += solid(place.check)
    ranges = borders(place, blocks, theirs)
    if ranges is None and place.program:
        return Answer(place.unsolved(), UNREADABLE)
    if ranges is None:
        end = find(after(blocks[-1]), theirs, 0, last=True)
        return (
            Answer(whole[: starts[end.start]] + place.fixed[-1], WHOLE)
            if end
            else Answer(whole, WHOLE)
        )

    head = theirs[ranges[0].start : ranges[0].stop] == blocks[0]
    lines = list(place.fixed[0])
    if head and not place.program:  # what they put ahead of it, such as imports
        lines = whole[: starts[ranges[0].start]] + lines
    note = ""
    for number, block in enumerate(place.fixed[1:], 1):
        above, below = ranges[2 * number - 2 : 2 * number]
        if [theirs[at.start : at.stop] for at in (above, below)] != blocks[number - 1 : number + 1]:
            note = CHANGED
        upper = starts[above.stop - 1] + 1 if above.stop else 0
        lines += [*trimmed(whole[upper : starts[below.start]]), *block]
    return Answer(lines, note)


def likeness(place: Place, text: str) -> float:
    """How much of a cell of ours is in a student's: 0, or up to 2."""
    lines = text.splitlines() or [""]
    if file_of(lines[0].strip()) != place.program:
        return 0.0
    theirs = solid(lines)
    fixed = [line for block in [*place.fixed, place.check] for line in block]
    ours = solid(fixed) or solid(place.unsolved())
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    share = sum(block.size for block in matcher.get_matching_blocks()) / len(ours)
    return share + matcher.ratio() if share >= ALIKE else 0.0


def answers(lesson: Workbook, cells: list[Written]) -> dict[int, Answer]:
    """What was written into each cell of a lesson that has regions, by the cell's number.

    Each cell of the student is taken once, the most alike first. Our id counts as much as all of
    our lines, and no more: when a lesson gets another cell, an id may pass on to the next one.
    """
    others = {squeezed(c.source) for n, c in enumerate(lesson.cells) if n not in lesson.places}
    free = [cell for cell in cells if squeezed(cell.text) not in others]
    pairs = []
    for number, place in lesson.places.items():
        for index, cell in enumerate(free):
            same = cell.id == lesson.cells[number].id
            alike = likeness(place, cell.text)
            if same or alike:
                pairs.append((-same - alike, number, index))
    filled: dict[int, Answer] = {}
    taken: set[int] = set()
    for _, number, index in sorted(pairs):
        if number not in filled and index not in taken:
            filled[number] = extract(lesson.places[number], free[index].text)
            taken.add(index)
    for number, place in lesson.places.items():
        filled.setdefault(number, Answer(place.unsolved(), MISSING))
    return filled
