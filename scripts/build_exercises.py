"""What the build adds to exercises: where to write, and the checks that the last cell tells about.

A cell tagged `hand-in` says `handin.line()`; it is given the notebook's checks: the cells below an
exercise's heading that print ✓ or ✗. A check is known by its end, below what the learner writes:
the number of these lines, and a digest of them.
"""

import hashlib
import re

from nbformat import NotebookNode

from build_course import Course
from build_grammar import HERE, WRITE, Cells, demand, tags
from build_lessons import EXERCISE

CALL = "handin.line()"
POINTER = re.compile(r"\n\nYour code goes into the cell below.*\n\n請寫在下面這一格.*\Z")


def lines_of(cell: NotebookNode) -> list[int]:
    """The lines of a cell that say *your code here*, as Jupyter counts them."""
    return [number for number, text in enumerate(cell.source.splitlines(), 1) if HERE in text]


def point_out(cells: Cells) -> None:
    """Where a program has an exercise, the text above it says in which lines of the cell."""
    above = None
    for _, cell in cells:
        if cell.cell_type == "markdown":
            cell.source = POINTER.sub("", cell.source)
            above = cell
            continue
        numbers = lines_of(cell) if WRITE.match(cell.source) else []
        if numbers and above:
            name = WRITE.match(cell.source)[1]
            shown = " and ".join(map(str, numbers))
            lines = f"line{'s' * (len(numbers) > 1)} {shown}"
            english = f"Your code goes into the cell below, `{name}`: {lines}, after ▼▼▼."
            chinese = (
                f"請寫在下面這一格 `{name}` 的第 {'、'.join(map(str, numbers))} 行，▼▼▼ 之後。"
            )
            above.source += f"\n\n{english}\n\n{chinese}"
        above = None if cell.cell_type == "code" and WRITE.match(cell.source) else above


def is_check(cell: NotebookNode) -> bool:
    """Whether a cell judges an exercise in print."""
    judges = "✗ not yet" in cell.source and "print(" in cell.source
    return judges and not WRITE.match(cell.source)


def end(written: str) -> str:
    """What handin.py knows a check by, as `3:1f0c9a77`: the lines below the exercise in it."""
    lines = written.rpartition("END SOLUTION\n")[2].strip().splitlines()
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]
    return f"{len(lines)}:{digest}"


def judges(cells: list[NotebookNode], numbered: bool) -> dict[int, str]:
    """The numbers of the cells that judge → the exercise that each judges.

    Not `numbered`, every check is an exercise, in its order.
    """
    found: dict[int, str] = {}
    exercise = ""
    for number, cell in enumerate(cells):
        if cell.cell_type == "markdown":
            for heading in re.findall(r"^#+ .*", cell.source, re.MULTILINE):
                match = EXERCISE.match(heading)
                exercise = match[1] if match else ""
        elif is_check(cell):
            if not numbered:
                exercise = str(len(found) + 1)
            if exercise:
                found[number] = exercise
    return found


def checks(course: Course, cells: Cells, numbered: bool) -> dict[str, list[str]]:
    """The checks of each exercise."""
    found: dict[str, list[str]] = {}
    known: set[str] = set()
    for number, exercise in judges([cell for _, cell in cells], numbered).items():
        place = cells[number][0]
        check = end(course.written[place])
        demand(check not in known, place, "another check ends with the same lines.")
        known.add(check)
        found.setdefault(exercise, []).append(check)
    return found


def fill_hand_in(course: Course, cells: Cells, name: str, numbered: bool = True) -> None:
    """Give the cell tagged `hand-in` the name of its notebook and the notebook's checks."""
    for place, cell in cells:
        if "hand-in" in tags(cell):
            demand(cell.source == CALL, place, f"a cell tagged `hand-in` says `{CALL}`.")
            rows = [f'    "{n}": {list(c)},' for n, c in checks(course, cells, numbered).items()]
            inside = "\n".join(["{", *rows, "}"]).replace("'", '"')
            cell.source = f'handin.line("{name}", {inside})'
