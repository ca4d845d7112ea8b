"""What students handed in: whose it is, of which lesson, and its code cells."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode

from course import same
from course.grade.lessons import Lesson, title

LARGEST = 50 * 2**20  # bytes of a file that is read
ENOUGH = 1 / 3  # of a lesson's code cells, where nothing else tells which lesson it is
LINE = re.compile(r"^\w+ \| .*\d+/\d+ \|.*$", re.MULTILINE)  # as handin.py prints it


class Cell(NamedTuple):
    id: str
    text: str


@dataclass
class Submission:
    """One file that was handed in."""

    file: str  # path below the folder of all
    student: str
    digest: str = ""  # of the file
    lesson: Lesson | None = None
    cells: list[Cell] = field(default_factory=list)  # the code cells
    hand_in: str = ""  # the line that the student's own notebook printed to hand in
    why: str = ""  # it is no notebook of this course


def encodable(text: str) -> str:
    """A text without halves of characters, which JSON may hold and no file can."""
    return text.encode("utf-8", "replace").decode()


def squeezed(text: str) -> str:
    """A text without its spaces and empty lines, for comparing."""
    return re.sub(r"\s+", "", text)


def recognize(notebook: NotebookNode, lessons: list[Lesson]) -> Lesson:
    """The lesson that a notebook was: by what the build records in it, its title, or its cells.

    ValueError when it was none.
    """
    texts = [cell.source for cell in notebook.cells]
    source = notebook.metadata.get("course", {}).get("generated_from")
    heading = title(texts)
    for lesson in lessons:
        if source and source == lesson.source:
            return lesson
    for lesson in lessons:
        if heading and heading == lesson.title:
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


def take(submission: Submission, path: Path, lessons: list[Lesson]) -> None:
    """Read a file into a submission; what is no notebook fails in a dozen ways."""
    if path.stat().st_size > LARGEST:
        raise ValueError(f"larger than {LARGEST // 2**20} MiB")
    data = path.read_bytes()
    submission.digest = same.letters(data)
    notebook = nbformat.v4.reads(data.decode())
    lesson = recognize(notebook, lessons)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    submission.cells = [Cell(str(cell.get("id", "")), encodable(cell.source)) for cell in code]
    line = hand_in(code)
    submission.hand_in = "" if line == hand_in(lesson.cells) else line  # ours, not run again
    submission.lesson = lesson


def read(path: Path, folder: Path, lessons: list[Lesson]) -> Submission:
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
