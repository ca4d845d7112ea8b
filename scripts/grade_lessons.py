"""The built notebooks that students work in: where they write, and which cells judge that."""

import hashlib
import json
import re
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode

import rooms
from build_exercises import is_check
from build_grammar import HERE, SOLUTION, WRITE, about, demand, solve
from build_lessons import EXERCISE


class Place(NamedTuple):
    """A cell in which students write, once or several times: what is ours around these regions."""

    number: int  # of the cell in its notebook
    program: str  # the file that it writes, or ""
    fixed: list[list[str]]  # our lines: before the first region, between two, after the last
    stubs: list[list[str]]  # what is in the regions when nothing was solved, ▼▼▼ first

    def lines(self) -> list[str]:
        """The cell as students get it."""
        lines = list(self.fixed[0])
        for stub, following in zip(self.stubs, self.fixed[1:], strict=True):
            lines += stub + following
        return lines


class Lesson:
    """One built notebook, unsolved."""

    def __init__(self, path: Path, known: list[list[str]]):
        notebook = nbformat.read(path, as_version=4)
        self.name = path.stem
        self.cells: list[NotebookNode] = notebook.cells
        self.quick: dict = about(notebook).get("quick", {})
        self.source: str = about(notebook).get("generated_from", "")
        texts = [cell.source for cell in self.cells]
        self.digest = hashlib.sha256(json.dumps(texts).encode()).hexdigest()
        self.title = title(texts)
        self.places: dict[int, Place] = {}
        for number, cell in enumerate(self.cells):
            if cell.cell_type == "code" and HERE in cell.source:
                self.places[number] = place(number, cell.source, known, path.name)
        # Exercise → numbers of the cells that judge it.
        self.checks = checks(self.cells, numbered=path.stem != "workshop")

    def exercise(self, number: int) -> str:
        """The exercise that cell `number` belongs to: that of the first check from there on."""
        places = {cell: name for name, cells in self.checks.items() for cell in cells}
        following = [cell for cell in places if cell >= number]
        return places[min(following)] if following else ""

    def last(self) -> int:
        """The number of the last cell that judges."""
        return max(cell for cells in self.checks.values() for cell in cells)


def title(texts: list[str]) -> str:
    """The first heading of a notebook, given as its cells; "" when it has none."""
    for text in texts:
        match = re.search(r"^# +(.+)", text, re.MULTILINE)
        if match and " · " in match[1]:
            return match[1].strip()
    return ""


def stubs(root: Path) -> list[list[str]]:
    """The lines that stand for a solution in unsolved notebooks, of every exercise."""
    sources = sorted((root / "notebooks" / "src").glob("*.md"))
    found = []
    for path in [*sources, *rooms.files(root / "scripts" / "lessons")]:
        for match in SOLUTION.finditer(path.read_text()):
            found.append(solve(match[0], False, path.name, live=True).splitlines())
    return found


def place(number: int, source: str, known: list[list[str]], name: str) -> Place:
    """Tell the regions of one cell from our lines around them."""
    lines = source.splitlines()
    fixed: list[list[str]] = [[]]
    written = []
    at = 0
    while at < len(lines):
        if HERE not in lines[at]:
            fixed[-1].append(lines[at])
            at += 1
            continue
        here = [stub for stub in known if lines[at : at + len(stub)] == stub]
        remedy = "an exercise that no source has: run `make build`, then this again."
        demand(here, f"notebooks/{name}, cell {number + 1}", remedy)
        written.append(max(here, key=len))
        fixed.append([])
        at += len(written[-1])
    match = WRITE.match(source)
    return Place(number, match[1] if match else "", fixed, written)


def checks(cells: list[NotebookNode], numbered: bool) -> dict[str, list[int]]:
    """The checks of each exercise; not `numbered`, every check is one, in its order."""
    found: dict[str, list[int]] = {}
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
                found.setdefault(exercise, []).append(number)
    return found


def load(root: Path) -> list[Lesson]:
    """Every built notebook that has exercises which a cell judges."""
    known = stubs(root)
    paths = sorted((root / "notebooks").glob("*.ipynb"))
    lessons = [Lesson(path, known) for path in paths]
    return [lesson for lesson in lessons if lesson.checks and lesson.places]
