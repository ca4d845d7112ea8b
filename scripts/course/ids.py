"""The id of a cell: from its lesson, the heading that it is below, and its number there.

`06-half-batches-1` is the cell of that heading, `-2` the next one. No change of words moves an id,
unless it is the heading's English; a new cell moves those that follow in its section. So links lead
to cells with a heading only.

The workshop's own cells, tagged `class`, are counted for themselves, as `class-06-…`: what a class
needs between two cells of a lesson changes nothing in the lesson.
"""

import re
from collections import Counter

from nbformat import NotebookNode
from slugify import slugify

from course.grammar import demand, tags
from course.languages import CJK, FENCED

HEADING = re.compile(r"^#+ (.*)", re.MULTILINE)
LONGEST = 42  # letters of a heading, so that `class-06-…-123-catch-up` has the 64 that are allowed


def named(heading: str) -> str:
    """The English part of `Half batches · 一半的批次`, as `half-batches`; no number ahead."""
    english = " ".join(part for part in heading.split(" · ") if not CJK.search(part))
    return slugify(re.sub(r"^\d+ ", "", english), max_length=LONGEST, word_boundary=True)


def identify(cells: list[NotebookNode], lesson: str, place: str) -> list[str]:
    """The ids of a lesson's cells, all that its source has; `lesson`: its number."""
    sections = {lesson: "", f"class-{lesson}": ""}  # where we are, for the lesson and for the class
    numbers: Counter[tuple[str, str]] = Counter()
    ids = []
    for cell in cells:
        kind = f"class-{lesson}" if "class" in tags(cell) else lesson
        is_prose = cell.cell_type == "markdown"
        headings = HEADING.findall(FENCED.sub("", cell.source)) if is_prose else []
        if headings:
            sections[kind] = named(headings[-1])
            known = (kind, sections[kind]) in numbers
            remedy = "another section has this heading, and ids of cells come from it: change one."
            demand(not known, place, f"“{headings[-1]}”: {remedy}")
        key = (kind, sections[kind])
        numbers[key] += 1
        ids.append("-".join(filter(None, [*key, str(numbers[key])])))
    return ids
