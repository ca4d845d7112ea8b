"""The record that a notebook keeps of its own run: how it comes to keep one, and how it is read.

A record may come from anywhere, so it is checked before anything of it is used.
"""

import json
import math
import textwrap
import zlib
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from course import same
from course.lesson import Cell, files_of
from course.sources import HIDDEN

RECORDER = Path(__file__).with_name("recorder.py")
RECORDED = "recorder"  # the id of the cell that records
MOST = 2_000_000  # bytes of a record; those of the lessons have a tenth
TEXT = {"type": "string", "maxLength": 400}
SECONDS = {"type": "number", "minimum": 0, "maximum": 100_000}
LINES = {"type": "array", "items": TEXT, "maxItems": 100}


def object_of(optional: dict | None = None, **needed: dict) -> dict:
    """The schema of an object with these fields and no others."""
    fields = needed | (optional or {})
    return {
        "type": "object",
        "properties": fields,
        "required": list(needed),
        "additionalProperties": False,
    }


def list_of(items: dict, most: int) -> dict:
    return {"type": "array", "items": items, "maxItems": most}


NAME = r"^[\w .,()/+-]*$"  # of a GPU, or a version: nothing that a page could run
PLAIN = {"type": "string", "maxLength": 80, "pattern": NAME}
MACHINE = object_of(
    gpus=list_of(PLAIN, 64),
    driver=PLAIN,
    torch=PLAIN,
    nccl=PLAIN,
    python=PLAIN,
    cores={"type": ["integer", "null"]},
    kaggle={"type": "boolean"},
)
CELL = object_of({"error": TEXT}, mark=PLAIN, line=TEXT, seconds=SECONDS, printed=LINES)
LAUNCH = object_of(
    {"printed": LINES, "reported": {"type": "object"}},
    program={"type": "string", "pattern": r"^\w{1,60}$"},
    code={"type": ["integer", "null"]},
    ranks={"type": "integer", "minimum": 1},
    seconds=SECONDS,
)
SCHEMA = object_of(
    notebook={"type": "string", "pattern": r"^(solutions/)?\w{1,60}$"},
    code={"type": "string", "pattern": "^[0-9a-f]{16}$"},
    date={"type": "string", "pattern": r"^20\d\d-[01]\d-[0-3]\d$"},
    seconds=SECONDS,
    whole={"type": "boolean"},
    running=TEXT,
    machine=MACHINE,
    cells=list_of(CELL, 1000),
    launches=list_of(LAUNCH, 500),
)


class RecordError(ValueError):
    """A file is no record of a run: what is wrong with it, in one line."""


def mark(source: str) -> str:
    """What a cell is known by in a record."""
    return f"{zlib.crc32(source.strip().encode()):08x}"


def what_runs(cells: list[Cell]) -> str:
    """A hash of what decides a notebook's results: no words, comments or docstrings."""
    parts: list[object] = []
    for cell in cells:
        if not cell.is_code:
            continue
        files = files_of(cell.source)
        for name, text in files.items():
            parts.append([name, same.code(text) if name.endswith(".py") else text])
        if not files:
            parts.append(same.cell(cell.source))
    return same.digest(*parts)


def record_file(name: str) -> str:
    """`06_run.json`, the record of `solutions/06_ddp`."""
    return f"{name.rpartition('/')[2].split('_')[0]}_run.json"


def checks(run: dict) -> tuple[int, int]:
    """How many lines begin with ✓ and with ✗ that the notebook's own cells printed."""
    own = [cell for cell in run["cells"] if not cell["line"].startswith("!")]
    lines = [line for cell in own for line in cell["printed"]]
    right = sum(line.startswith("✓") for line in lines)
    return right, sum(line.startswith("✗") for line in lines)


def fit(notebook: NotebookNode, name: str) -> None:
    """Make a notebook keep a record: a folded cell ahead of its code."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    about = {"notebook": name, "code": what_runs(list(map(Cell, notebook.cells)))}
    about["last"] = mark(code[-1].source)
    # All within a function: the notebook may give each of its names another meaning.
    within = textwrap.indent(f"{RECORDER.read_text()}\nRecorder(about)\n", "    ")
    lines = ["def record(about):", within, f"record({about!r})", "del record"]
    cell = new_code_cell("\n".join(lines), id=RECORDED, metadata={"tags": ["fold"], **HIDDEN})
    notebook.cells.insert(notebook.cells.index(code[0]), cell)


def strict(text: str) -> object:
    """JSON without NaN, infinities and nesting without end. ValueError for what is none."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no number")

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise ValueError("nested without end") from None


def finite(value: object) -> bool:
    """Whether all numbers are some; 1e999 is read as infinite."""
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list):
        return all(map(finite, value))
    if isinstance(value, int):
        return abs(value) < 10**18
    return not isinstance(value, float) or math.isfinite(value)


def parsed(content: bytes) -> dict:
    """What a record says. RecordError for anything else."""
    if len(content) > MOST:
        raise RecordError(f"it has {len(content):,} bytes, a record {MOST:,} at most")
    try:
        run = strict(content.decode())
    except ValueError as error:
        raise RecordError(f"it is not the JSON of a record ({str(error)[:80]})") from None
    from jsonschema import Draft202012Validator  # takes a moment

    error = next(Draft202012Validator(SCHEMA).iter_errors(run), None)
    if error is not None:
        place = ".".join(map(str, error.path)) or "the whole"
        raise RecordError(f"it is no record of a run ({place}: {error.message[:80]})")
    if not finite(run):
        raise RecordError("it is no record of a run: it holds a number without end")
    return run


def read(path: Path) -> dict:
    """The record in a file. RecordError for anything else."""
    try:
        with path.open("rb") as file:
            return parsed(file.read(MOST + 1))
    except OSError as error:
        raise RecordError(f"it cannot be read ({error.strerror})") from None
