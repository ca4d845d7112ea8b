"""What the README shows of kept outputs: what lesson 06's first program prints, and the curve.

While a lesson waits for its outputs, README and picture stay as they are.
"""

import base64
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course.filled import filled_region
from course.sources import Course

README = "README.md"
FIRST = "!torchrun --standalone --nproc-per-node=2 first.py"
CURVE = "!torchrun --standalone --nproc-per-node=2 curve.py --talk"
PICTURE = "assets/curve.png"


def from_launch(files: dict[Path, str], path: Path, launch: str) -> list[NotebookNode]:
    """The outputs of a notebook from its first cell with this launch on."""
    if path not in files or launch not in files[path]:
        return []
    outputs = []
    met = False
    for cell in nbformat.reads(files[path], as_version=4).cells:
        met = met or cell.source == launch
        if met and cell.cell_type == "code":
            outputs += cell.outputs
    return outputs


def printed(files: dict[Path, str], path: Path) -> str:
    """The first program's launch and its lines; "" if the lesson waits for outputs.

    Each line begins with its rank; what torch says beside them is left out.
    """
    for output in from_launch(files, path, FIRST)[:1]:
        lines = [line for line in output.get("text", "").splitlines() if line.startswith("rank ")]
        return "\n".join(["```", f"$ {FIRST[1:]}", *lines, "```\n"])
    return ""


def readme(course: Course, files: dict[Path, str]) -> dict[Path, str]:
    """The README with what the first program prints."""
    path = course.root / README
    text = printed(files, course.notebooks / "06_ddp.ipynb")
    return {path: filled_region(files[path], "first", text, README)} if text else {}


def pictures(course: Course, files: dict[Path, str]) -> dict[Path, bytes]:
    """The figure of lesson 00: the first that is drawn after its ranks have talked."""
    for output in from_launch(files, course.notebooks / "00_start_here.ipynb", CURVE):
        coded = output.get("data", {}).get("image/png")
        if coded:
            return {course.root / PICTURE: base64.b64decode(coded)}
    return {}
