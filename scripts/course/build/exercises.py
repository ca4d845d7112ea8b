"""What the build adds to exercises: where to write, and the checks that the last cell tells about.

A cell tagged `hand-in` says `handin.line()`; it is given the notebook's checks: the cells below an
exercise's heading that print ✓ or ✗. A check is known by its end, below what the learner writes:
the number of these lines, and a digest of them.
"""

import hashlib
import re

from nbformat import NotebookNode

from course.sources import Course
from course.grammar import HERE, WRITE, Cells, demand, tags
from course.build.lessons import EXERCISE

CALL = "handin.line()"
HEADING = re.compile(r"^#+ .*", re.MULTILINE)
POINTER = re.compile(
    r"\n\n(?:Your code goes into|First run) the cell below.*"
    r"\n\n(?:請寫在|先照原樣執行)下面這一格.*\Z"
)


def lines_of(cell: NotebookNode) -> list[int]:
    """The lines of a cell that say *your code here*, as Jupyter counts them."""
    return [number for number, text in enumerate(cell.source.splitlines(), 1) if HERE in text]


def pointer(name: str, numbers: list[int], later: str) -> str:
    """In which lines of the program below to write; `later`: the exercise that will ask for it."""
    english = f"line{'s' * (len(numbers) > 1)} {' and '.join(map(str, numbers))}"
    chinese = "、".join(map(str, numbers))
    if later:
        return (
            f"\n\nFirst run the cell below, `{name}`, as it is: Exercise {later}, further down, "
            f"will ask you to write in its {english}, after ▼▼▼."
            f"\n\n先照原樣執行下面這一格 `{name}`："
            f"後面的練習 {later} 會請你寫在第 {chinese} 行，▼▼▼ 之後。"
        )
    return (
        f"\n\nYour code goes into the cell below, `{name}`: {english}, after ▼▼▼."
        f"\n\n請寫在下面這一格 `{name}` 的第 {chinese} 行，▼▼▼ 之後。"
    )


def point_out(cells: Cells) -> None:
    """Where a program has an exercise, the text above it says in which lines of the cell."""
    cells = list(cells)
    above = None
    inside = False  # an exercise's section
    for place, (_, cell) in enumerate(cells):
        if cell.cell_type == "markdown":
            cell.source = POINTER.sub("", cell.source)
            for heading in HEADING.findall(cell.source):
                inside = bool(EXERCISE.match(heading))
            above = cell
            continue
        program = WRITE.match(cell.source)
        numbers = lines_of(cell) if program else []
        if numbers and above:
            later = "" if inside else asking(cells[place:], program[1])
            above.source += pointer(program[1], numbers, later)
        above = None if program else above


def asking(cells: Cells, program: str) -> str:
    """The number of the first exercise in these cells that names the program; of the first one,
    if none does; "" if there is no exercise.
    """
    sections: dict[str, str] = {}
    exercise = ""
    for _, cell in cells:
        headings = HEADING.findall(cell.source) if cell.cell_type == "markdown" else []
        for heading in headings:
            match = EXERCISE.match(heading)
            exercise = match[1] if match else ""
        if exercise:
            sections[exercise] = sections.get(exercise, "") + cell.source
    naming = [number for number, text in sections.items() if program in text]
    return next(iter([*naming, *sections]), "")


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
            for heading in HEADING.findall(cell.source):
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
