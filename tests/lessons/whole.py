"""What tests run of each lesson: the solved notebook; in a campaign also what is unsolved."""

import itertools
import re
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from course.lesson import Lesson

ROOT = Path(__file__).resolve().parents[2]
SOLVED = sorted((ROOT / "notebooks" / "solutions").glob("*.ipynb"))
TITLES = ROOT / "tests" / "programs" / "titles.py"

# In every launched program a deprecation is an error. Exceptions are torch's own, as
# "message": torch version; and from Python 3.12 on, a word about forked ranks (course.forked).
DEPRECATED = ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning")
NOT_OURS = {
    "`torch.jit.script_method` is deprecated": "2.10, when Inductor is imported",
    "This process": "2.10, when a process with threads forks",
}
FILTERS = [f"error::{kind}" for kind in DEPRECATED] + [f"ignore:{text}" for text in NOT_OURS]
# Without leaving `os` behind, which a lesson may have forgotten to import.
STRICT = f'__import__("os").environ["PYTHONWARNINGS"] = {",".join(FILTERS)!r}'

UNSOLVED = "unsolved"  # the tag of cells that may say so
FAULT = "A figure's fault: "  # what tests/programs/titles.py begins a complaint with
NOT_YET = re.compile(r"\bnot (?:\w+ )?yet\b")  # what the check of an exercise says until it is done


def sections(path: Path) -> dict[str, list[NotebookNode]]:
    """The code cells under each heading."""
    found: dict[str, list[NotebookNode]] = {}
    for section in Lesson.at(path).sections:
        title = section.heading.text if section.heading else ""
        found.setdefault(title, []).extend(cell.node for cell in section.code)
    return {title: cells for title, cells in found.items() if cells}


def sources(cells: list[NotebookNode]) -> list[str]:
    return [cell.source for cell in cells]


def strict(cells: list[NotebookNode]) -> list[NotebookNode]:
    """The same cells, and behind the one that begins to watch launches: deprecations are errors."""
    made = []
    for cell in cells:
        made.append(cell)
        if "from launch import" in cell.source:
            made.append(new_code_cell(STRICT))
    return made


def read_as(solved: Path) -> Path:
    """The notebook that a test runs: the solved one, but the workshop as a class begins it.

    Solved, its programs are those of the lessons.
    """
    return ROOT / "notebooks" / solved.name if solved.stem == "workshop" else solved


def to_solve(solved: Path) -> list[list[NotebookNode]]:
    """The unsolved sections: those that differ from the solved ones."""
    whole = sections(solved)
    stubs = sections(ROOT / "notebooks" / solved.name)
    return [stubs[name] for name in whole if sources(whole[name]) != sources(stubs[name])]


def prepared(solved: Path, folder: Path, unsolved: bool = False) -> Path:
    """Write the notebook and, behind it, if they are asked for, the sections to be solved.

    In all of them deprecations are errors, and what figures say is printed, too, when a title says
    that something is not yet done, or when nobody could read it.
    """
    path = read_as(solved)
    cells = [new_code_cell(TITLES.read_text())]
    for section in sections(path).values():
        for cell in section:
            if path != solved:
                cell.metadata["tags"] = [*cell.metadata.get("tags", []), UNSOLVED]
        cells += strict(section)
    if unsolved:
        for source in itertools.chain(*map(sources, to_solve(solved))):
            cells.append(new_code_cell(source, metadata={"tags": [UNSOLVED]}))
    metadata = nbformat.read(solved, as_version=4).metadata
    nbformat.write(new_notebook(cells=cells, metadata=metadata), folder / solved.name)
    return folder / solved.name


def printed(cell: NotebookNode) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


def complaints(ran: NotebookNode) -> list[str]:
    """What a notebook that ran to its end has wrong: a solved cell that says that it is not, a
    figure that cannot be read.
    """
    found = []
    for number, cell in enumerate(ran.cells, 1):
        if cell.cell_type != "code":
            continue
        if not cell.execution_count:
            found.append(f"cell {number} was not run: {cell.source[:80]}")
        faults = [line for line in printed(cell).splitlines() if line.startswith(FAULT)]
        found += [f"cell {number}: {line}" for line in faults]
        if UNSOLVED not in cell.metadata.get("tags", []):
            lines = [line for line in printed(cell).splitlines() if NOT_YET.search(line)]
            found += [f"cell {number} is solved, and prints “{line}”" for line in lines]
    return found
