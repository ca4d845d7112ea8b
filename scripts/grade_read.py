"""What students handed in: whose it is, of which lesson, and its code cells."""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from grade_lessons import Lesson, title

LARGEST = 50 * 2**20  # bytes of a file that is read
ENOUGH = 1 / 3  # of a lesson's code cells, where nothing else tells which lesson it is
LINE = re.compile(r"^\w+ \| .*\d+/\d+ \|.*$", re.MULTILINE)  # as handin.py prints it


class NotOurs(Exception):
    """A file is no notebook of this course; the message says why."""


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


def text_of(value: object) -> str:
    """A text as notebooks keep it: one string, or a list of lines."""
    if isinstance(value, list):
        value = "".join(part for part in value if isinstance(part, str))
    text = value if isinstance(value, str) else ""
    return text.encode("utf-8", "replace").decode()


def entry(value: object, *names: str) -> object:
    """`value[first][second]…`, None where that is not there."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def parse(data: bytes) -> dict:
    """A notebook as it is in its file."""
    try:
        notebook = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise NotOurs(f"not a notebook: {error}"[:120]) from None
    cells = entry(notebook, "cells")
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise NotOurs("not a notebook: it has no cells")
    return notebook


def squeezed(text: str) -> str:
    """A text without its spaces and empty lines, for comparing."""
    return re.sub(r"\s+", "", text)


def recognize(notebook: dict, lessons: list[Lesson]) -> Lesson:
    """The lesson that a notebook was: by what the build records in it, its title, or its cells."""
    source = entry(notebook, "metadata", "course", "generated_from")
    texts = [text_of(cell.get("source")) for cell in notebook["cells"]]
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
        raise NotOurs("no lesson has this title or most of these cells")
    return best


def hand_in(notebook: dict) -> str:
    """The last line to hand in that a cell of the student's notebook printed."""
    found = ""
    for cell in notebook["cells"]:
        outputs = cell.get("outputs")
        if not isinstance(outputs, list):
            continue
        for output in outputs:
            lines = LINE.findall(text_of(entry(output, "text")))
            found = lines[-1] if lines else found
    return found[:300]


def read(path: Path, folder: Path, lessons: list[Lesson]) -> Submission:
    """One file of the folder of all submissions."""
    name = path.relative_to(folder)
    student = name.parts[0] if len(name.parts) > 1 else name.stem
    submission = Submission(text_of(str(name)), text_of(student))
    try:
        if path.stat().st_size > LARGEST:
            raise NotOurs(f"larger than {LARGEST // 2**20} MiB")
        data = path.read_bytes()
        submission.digest = hashlib.sha256(data).hexdigest()
        notebook = parse(data)
        submission.lesson = recognize(notebook, lessons)
    except (NotOurs, OSError) as error:
        submission.why = f"no notebook of this course ({error})"
        return submission
    submission.hand_in = hand_in(notebook)
    for cell in notebook["cells"]:
        if cell.get("cell_type") == "code":
            known = cell.get("id")
            known = known if isinstance(known, str) else ""
            submission.cells.append(Cell(known, text_of(cell.get("source"))))
    return submission


def files(folder: Path) -> Iterator[Path]:
    """Every file that was handed in, but no hidden ones, and no links."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        with suppress(OSError):
            if not hidden and path.is_file() and not path.is_symlink():
                yield path
