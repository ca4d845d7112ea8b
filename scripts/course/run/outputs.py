"""What a run leaves in the repository: outputs, the workshop's times, the index of errors."""

import json
import os
import re
import sys
from contextlib import suppress
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course import ROOT
from course.files import write
from course.launches import launch_of
from course.lesson import WORKSHOP, Lesson, tags
from course.machine import processor
from course.outputs import keep_outputs
from course.run.notebook import Run, source

# The folder of a run where torch has cut off the beginning of its path.
SHORTENED = re.compile(r"[\w.-]*/course-\w+/\d+/home/")


def machine(home: Path, busy: bool) -> dict:
    """Where a notebook ran, as its programs wrote it into `home`; whether others computed, too."""
    about: dict = {"data": "none", "processor": processor()}  # unless a program tells which data
    for path in sorted(home.glob("*.json")):
        with suppress(ValueError, AttributeError):  # whatever else a notebook writes as JSON
            written = json.loads(path.read_text()).items()
            about |= {key: value for key, value in written if key in ("torch", "device", "data")}
    if busy:
        about["busy"] = True
    return about


def bring_back(run: Run) -> None:
    """Put the outputs of a run with default parameters into the committed notebook.

    With them goes the machine that they came from.
    """
    notebook = nbformat.read(run.path, as_version=4)
    notebook.metadata.setdefault("course", nbformat.NotebookNode())
    ran = nbformat.v4.reads(json.dumps(run.read()))
    about = machine(run.home, run.busy) | {"seconds": launch_seconds(run.begun_cells())}
    tell_verdicts(ran)
    kept = keep_outputs(ran, notebook, about)
    # Tracebacks name files: keep the machine's own folders out. Only now is a path in one piece,
    # which may come in two pieces of a stream.
    text = nbformat.writes(notebook) + "\n"
    installed = Path(sys.prefix)  # perhaps a link to an environment elsewhere
    python = Path(sys.base_prefix)  # its own library is in a traceback, too
    own = (installed.parent, installed.resolve().parent, python)
    for place in (run.home, run.folder, *own, ROOT):
        text = text.replace(f"{place}/", "")
    text = SHORTENED.sub("", text)
    write(run.path, text)
    if run.name == f"solutions/{WORKSHOP}":
        path = ROOT / "assets" / f"{WORKSHOP}-{os.cpu_count()}-cores.json"
        write(path, budget(run.begun_cells(), about))
    table = index(run.begun_cells(), run.path.stem)
    if table:
        path = ROOT / "assets" / "errors.md"
        write(path, merged(path.read_text() if path.exists() else "", table))
    print(f"{run.name}: outputs of {kept} cells taken")


def tell_verdicts(ran: NotebookNode) -> None:
    """Add to the alternative texts of each section's pictures what its verdicts have printed."""
    for section in Lesson.of(ran).sections:
        add_verdicts([cell.node for cell in section.code])


def add_verdicts(section: list[NotebookNode]) -> None:
    verdicts = [cell for cell in section if "verdict" in tags(cell)]
    printed = [output.get("text", "") for cell in verdicts for output in cell.outputs]
    lines = " ".join(" ".join(printed).split())
    for output in [output for cell in section for output in cell.outputs]:
        picture = output.get("metadata", {}).get("image/png", {})
        if lines and "alt" in picture:
            picture["alt"] += f" Printed: {lines}"


def launch_seconds(cells: list[dict]) -> list[float]:
    """How long each launch took, in their order; whole tenths of a second."""
    launches = [cell for cell in cells if launch_of(source(cell))]
    return [round(cell["metadata"]["papermill"]["duration"], 1) for cell in launches]


def budget(cells: list[dict], about: dict) -> str:
    """How long each launch of the workshop took, and all other cells: JSON for the run sheet."""
    rows = []
    rest = 0.0
    for cell in cells:
        launch = launch_of(source(cell))
        seconds = cell["metadata"].get("papermill", {}).get("duration") or 0
        if launch:
            rows.append({"row": f"{launch.name} on {launch.ranks}", "seconds": round(seconds)})
        else:
            rest += seconds
    rows.append({"row": "launches", "seconds": sum(row["seconds"] for row in rows)})
    rows.append({"row": "other cells", "seconds": round(rest)})
    run = {"machine": {"cores": os.cpu_count()} | about, "rows": rows}
    return json.dumps(run, indent=1) + "\n"


def index(cells: list[dict], name: str) -> str:
    """The table from error text to section that a lesson shows in its cell tagged `index`.

    The sections become links to the lesson of this name; "" without such a cell.
    """
    tagged = [cell for cell in cells if "index" in tags(cell)]
    if not tagged:
        return ""
    shown = [output["data"] for output in tagged[0]["outputs"] if "data" in output]
    head, line, *rows = "".join(shown[0]["text/markdown"]).strip().splitlines()
    linked = []
    for row in rows:
        error, section, remedy = row.strip("| ").split(" | ")
        linked.append(f"| {error} | [{section}]({name}.ipynb) | {remedy} |")
    return "\n".join([head, line, *linked]) + "\n"


def merged(old: str, new: str) -> str:
    """The table of all lessons, with the rows of one lesson in place of its earlier ones.

    The lessons stand in their order; last come the rows with ↑, which tell no cause.
    """
    head, line, *rows = new.splitlines()
    fresh = {lesson(row) for row in rows}
    rows += [row for row in old.splitlines()[2:] if lesson(row) not in fresh]
    rows.sort(key=lambda row: ("↑" in row, lesson(row)))
    return "\n".join([head, line, *rows]) + "\n"


def lesson(row: str) -> str:
    """The lesson that a row of the table links to."""
    return re.search(r"\]\((\w+)\.ipynb\)", row)[1]
