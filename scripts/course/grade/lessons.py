"""The built notebooks that students work in: where they write, and which cells judge that."""

import json
import re
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode

from course import lesson, rooms, same
from course.lesson import HERE, SOLUTION, about, demand, solve


class Place(NamedTuple):
    """A cell in which students write, once or several times: what is ours around these regions."""

    program: str  # the file that it writes, or ""
    fixed: list[list[str]]  # our lines: before the first region, between two, after the last
    stubs: list[list[str]]  # what is in the regions when nothing was solved, ▼▼▼ first
    check: list[str]  # our lines below all that, which judge it

    def unsolved(self) -> list[str]:
        """The cell as students get it, without its check."""
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
        self.digest = same.letters(json.dumps(texts))
        self.title = title(texts)
        # Number of a cell that judges → its exercise.
        parsed = lesson.Lesson.of(notebook)
        judging = {
            id(cell.node): exercise
            for cell, exercise in parsed.checks(numbered=self.name != "workshop")
        }
        self.judges = {
            number: judging[id(cell)]
            for number, cell in enumerate(self.cells)
            if id(cell) in judging
        }
        self.exercises = list(dict.fromkeys(self.judges.values()))
        self.places: dict[int, Place] = {}
        for number, cell in enumerate(parsed.cells):
            if cell.is_code and cell.regions:
                where = f"notebooks/{path.name}, cell {number + 1}"
                self.places[number] = place(cell, known, where, number in self.judges)

    def exercise(self, number: int) -> str:
        """The exercise that cell `number` belongs to: that of the first check from there on."""
        return next((name for check, name in self.judges.items() if check >= number), "")


def title(texts: list[str]) -> str:
    """The first heading of a notebook, given as its cells; "" when it has none."""
    for text in texts:
        match = re.search(r"^# +(.+ · .+)", text, re.MULTILINE)
        if match:
            return match[1].strip()
    return ""


def stubs(root: Path) -> list[list[str]]:
    """The lines that stand for a solution in unsolved notebooks, of every exercise."""
    sources = sorted((root / "notebooks" / "src").glob("*.md"))
    found = []
    for path in [*sources, *rooms.files(root / "scripts" / "lessons")]:
        for match in SOLUTION.finditer(path.read_text()):
            found.append(solve(match[0], False, path.name, live=True).splitlines())
    return sorted(found, key=len, reverse=True)


def place(cell: lesson.Cell, known: list[list[str]], where: str, judging: bool) -> Place:
    """Tell the regions of one cell from our lines around them, and from its check."""
    lines = cell.source.splitlines()
    fixed: list[list[str]] = [[]]
    written = []
    at = 0
    while at < len(lines):
        if HERE not in lines[at]:
            fixed[-1].append(lines[at])
            at += 1
            continue
        stub = next((stub for stub in known if lines[at : at + len(stub)] == stub), None)
        demand(stub, where, "an exercise that no source has: run `make build`, then this again.")
        written.append(stub)
        fixed.append([])
        at += len(stub)
    last = fixed[-1]
    cut = len(last)
    if judging:  # from the first line on that belongs to no block above
        cut = next(n for n, line in enumerate(last) if line and not line.startswith(" "))
    fixed[-1] = last[:cut]
    return Place(cell.file, fixed, written, last[cut:])


def load(root: Path) -> list[Lesson]:
    """Every built notebook that has exercises which a cell judges."""
    known = stubs(root)
    paths = sorted((root / "notebooks").glob("*.ipynb"))
    lessons = [Lesson(path, known) for path in paths]
    return [lesson for lesson in lessons if lesson.judges and lesson.places]
