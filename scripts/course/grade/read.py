"""What students handed in, and what they were given: our built notebooks, where they write, and
which cells judge that.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode

from course import rooms, same
from course.lesson import EXAM, HERE, SOLUTION, WORKSHOP, Cell, Lesson, about, demand, solve

# ---- our notebooks


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


class Workbook:
    """One built notebook, unsolved."""

    def __init__(self, notebook: NotebookNode, name: str, known: list[list[str]]):
        self.name = name
        self.cells: list[NotebookNode] = notebook.cells
        self.quick: dict = about(notebook).get("quick", {})
        self.source: str = about(notebook).get("generated_from", "")
        texts = [cell.source for cell in self.cells]
        self.digest = same.letters(json.dumps(texts))
        parsed = Lesson.of(notebook)
        self.title = parsed.title
        # Number of a cell that judges → its exercise.
        checks = parsed.checks(numbered=self.name != WORKSHOP)
        self.judges = {parsed.cells.index(cell): exercise for cell, exercise in checks}
        self.exercises = list(dict.fromkeys(self.judges.values()))
        self.places: dict[int, Place] = {}
        for number, cell in enumerate(parsed.cells):
            if cell.is_code and cell.regions:
                where = f"notebooks/{name}.ipynb, cell {number + 1}"
                self.places[number] = place(cell, known, where, number in self.judges)

    def exercise(self, number: int) -> str:
        """The exercise that cell `number` belongs to: that of the first check from there on."""
        return next((name for check, name in self.judges.items() if check >= number), "")


def stubs(root: Path) -> list[list[str]]:
    """The lines that stand for a solution in unsolved notebooks, of every exercise."""
    found = sorted((root / "notebooks" / "src").glob("*.md"))
    sources = [path for path in found if path.stem != EXAM]
    blocks = []
    for path in [*sources, *rooms.files(root / "scripts" / "lessons")]:
        for match in SOLUTION.finditer(path.read_text()):
            blocks.append(solve(match[0], False, path.name, live=True).splitlines())
    return sorted(blocks, key=len, reverse=True)


def place(cell: Cell, known: list[list[str]], where: str, judging: bool) -> Place:
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


def load(root: Path) -> list[Workbook]:
    """Every built notebook that has exercises which a cell judges."""
    known = stubs(root)
    paths = sorted((root / "notebooks").glob("*.ipynb"))
    books = {path.stem: nbformat.read(path, as_version=4) for path in paths}
    lessons = [Workbook(book, name, known) for name, book in books.items()]
    return [lesson for lesson in lessons if lesson.judges and lesson.places]


# ---- theirs


LARGEST = 50 * 2**20  # bytes of a file that is read
ENOUGH = 1 / 3  # of a lesson's code cells, where nothing else tells which lesson it is
LINE = re.compile(r"^\w+ \| .*\d+/\d+ \|.*$", re.MULTILINE)  # as handin.py prints it


class Written(NamedTuple):
    id: str
    text: str


@dataclass
class Submission:
    """One file that was handed in."""

    file: str  # path below the folder of all
    student: str
    digest: str = ""  # of the file
    lesson: Workbook | None = None
    cells: list[Written] = field(default_factory=list)  # the code cells
    hand_in: str = ""  # the line that the student's own notebook printed to hand in
    why: str = ""  # it is no notebook of this course


def encodable(text: str) -> str:
    """A text without halves of characters, which JSON may hold and no file can."""
    return text.encode("utf-8", "replace").decode()


def squeezed(text: str) -> str:
    """A text without its spaces and empty lines, for comparing."""
    return re.sub(r"\s+", "", text)


def recognize(notebook: NotebookNode, lessons: list[Workbook]) -> Workbook:
    """The lesson that a notebook was: by what the build records in it, its title, or its cells.

    ValueError when it was none.
    """
    texts = [cell.source for cell in notebook.cells]
    source = about(notebook).get("generated_from")
    title = Lesson.of(notebook).title
    for lesson in lessons:
        if source and source == lesson.source:
            return lesson
    for lesson in lessons:
        if title and title == lesson.title:
            return lesson

    theirs = set(map(squeezed, texts))
    shares = {}
    for lesson in lessons:
        ours = {squeezed(cell.source) for cell in lesson.cells if cell.cell_type == "code"}
        shares[lesson.name] = len(ours & theirs) / len(ours)
    best = max(lessons, key=lambda lesson: shares[lesson.name])
    if shares[best.name] < ENOUGH:
        raise ValueError("no lesson has this title or most of these cells")
    return best


def hand_in(cells: list[NotebookNode]) -> str:
    """The last line to hand in that a cell of the student's notebook printed."""
    lines = []
    for cell in cells:
        for output in cell.get("outputs", []):
            lines += LINE.findall(output.get("text", ""))
    return encodable(lines[-1][:300]) if lines else ""


def take(submission: Submission, path: Path, lessons: list[Workbook]) -> None:
    """Read a file into a submission; what is no notebook fails in a dozen ways."""
    if path.stat().st_size > LARGEST:
        raise ValueError(f"larger than {LARGEST // 2**20} MiB")
    data = path.read_bytes()
    submission.digest = same.letters(data)
    notebook = nbformat.v4.reads(data.decode())
    lesson = recognize(notebook, lessons)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    submission.cells = [Written(str(cell.get("id", "")), encodable(cell.source)) for cell in code]
    line = hand_in(code)
    submission.hand_in = "" if line == hand_in(lesson.cells) else line  # ours, not run again
    submission.lesson = lesson


def read(path: Path, folder: Path, lessons: list[Workbook]) -> Submission:
    """One file of the folder of all submissions."""
    name = path.relative_to(folder)
    student = name.parts[0] if len(name.parts) > 1 else name.stem
    submission = Submission(encodable(str(name)), encodable(student))
    try:
        take(submission, path, lessons)
    except Exception as error:
        reason = encodable(f"{type(error).__name__}: {error}".removeprefix("ValueError: "))
        submission.why = f"no notebook of this course ({reason[:120]})"
    return submission


def files(folder: Path) -> Iterator[Path]:
    """Every file that was handed in, but no hidden ones, and no links."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not hidden and path.is_file() and not path.is_symlink():
            yield path
