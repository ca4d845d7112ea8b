"""A notebook as a file: where it comes from, and the outputs of its last run."""

import ast
import base64
import hashlib
import io
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path

import nbformat
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from nbformat import NotebookNode
from nbformat.v4 import new_notebook
from PIL import Image

from build_grammar import WRITE, Cells, about, demand, tags

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
COLOURS = 64
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def fingerprint(cells: list[NotebookNode]) -> str:
    """A hash of what the cells say, without the cell that papermill injects."""
    own = [cell for cell in cells if "injected-parameters" not in tags(cell)]
    texts = [f"{cell.cell_type}\n{cell.source}" for cell in own]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def notebook(cells: Cells, generated_from: str, course: dict) -> NotebookNode:
    """A notebook of these cells that says what it was made from."""
    plain = [cell for _, cell in cells]
    course = course | {"generated_from": generated_from}
    metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}, "course": course}
    return new_notebook(cells=plain, metadata=metadata)


def seal(notebook: NotebookNode) -> None:
    """Record what the finished notebook says, so that a change by hand is noticed."""
    notebook.metadata.course["built"] = fingerprint(notebook.cells)


def as_text(notebook: NotebookNode) -> str:
    return nbformat.writes(notebook) + "\n"


def runs(source: str) -> str:
    """The part of a cell that decides what it prints.

    If it writes a program, comments and docstrings do not count, but the line of each statement
    does: tracebacks show it.
    """
    first, _, program = source.partition("\n")
    match = WRITE.match(source)
    if not match or not match[1].endswith(".py"):
        return source
    try:
        tree = ast.parse(program)
    except SyntaxError:  # a program that a lesson breaks on purpose
        return source
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    for node in ast.walk(tree):  # a function may end with its docstring
        node.end_lineno = node.end_col_offset = None
    return f"{first}\n{ast.dump(tree, include_attributes=True)}"


def same(before: str, after: str, printed: str) -> bool:
    """Whether a cell would print the same. A line that was printed may not change, nor an empty
    one: a program that is printed would get a new line there.
    """
    if before == after:
        return True
    if runs(before) != runs(after):
        return False
    pairs = zip_longest(before.splitlines(), after.splitlines(), fillvalue="")
    changed = [old.strip().strip('"') for old, new in pairs if old != new]
    return not any(line in printed for line in changed)


def everything_printed(cells: list[NotebookNode]) -> str:
    outputs = [output for cell in cells for output in cell.outputs]
    texts = [output.get("text", "") or str(output.get("data", "")) for output in outputs]
    return "\n".join(texts)


def keep_outputs(
    old: NotebookNode, new: NotebookNode, machine: dict | None = None, inert: str = ""
) -> int:
    """Copy outputs while what a cell runs, and all code cells before it, is the same.

    A changed cell ends it, unless `inert` gives the reason why it would print the same; the
    notebook keeps this reason. A cell that papermill injected ends it: what follows ran with other
    parameters. The pieces of a stream are joined. Returns how many cells kept their outputs.
    """
    befores = [cell for cell in old.cells if cell.cell_type == "code"]
    afters = [cell for cell in new.cells if cell.cell_type == "code"]
    printed = everything_printed(befores)
    machine = machine or about(old).get("outputs")
    ran = []
    reason = {}
    for before, after in zip(befores, afters, strict=False):
        if not same(before.source, after.source, printed):
            if not inert or len(befores) != len(afters):
                break
            earlier = (machine or {}).get("inert", "")
            reasons = dict.fromkeys(filter(None, [earlier, inert]))
            reason = {"inert": "; ".join(reasons)}
        after.outputs = before.outputs
        after.execution_count = before.execution_count
        CoalesceStreamsPreprocessor().preprocess_cell(after, {}, 0)
        for output in after.outputs:
            clean(output)
        if after.execution_count or after.outputs:
            ran.append(after)
    if machine and ran:
        new.metadata.course["outputs"] = machine | reason | {"code": fingerprint(ran)}
    return len(ran)


def clean(output: NotebookNode) -> None:
    """Plain line ends in what was printed, and small pictures."""
    if output.output_type == "stream":
        output.text = output.text.replace("\r\n", "\n")
    elif "image/png" in output.get("data", {}):
        output.data["image/png"] = palette(output.data["image/png"])


def palette(png: str) -> str:
    """The same picture with few colours: a fourth of the bytes, and readers hardly see it.

    Thin lines keep their colours, which Pillow's default method (median cut) loses: it looks for
    colours that cover much.
    """
    image = Image.open(io.BytesIO(base64.b64decode(png)))
    if image.mode == "P" and len(image.getcolors()) <= COLOURS:
        return png
    small = io.BytesIO()
    few = image.convert("RGB").quantize(
        COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
    )
    few.save(small, "PNG", optimize=True)
    return base64.b64encode(small.getvalue()).decode()


def inherit(new: NotebookNode, path: Path, name: str, force: bool, inert: str) -> None:
    """Take over the outputs of the notebook at `path`, which nobody may have edited by hand."""
    if not path.exists():
        return
    old = new_notebook()  # stands for a file that is no notebook, as a merge conflict leaves it
    with suppress(ValueError):
        old = nbformat.read(path, as_version=4)
    untouched = about(old).get("built") == fingerprint(old.cells)
    remedy = f"move the change to {about(new).generated_from} or the program, then build --force."
    demand(untouched or force, name, f"this notebook was edited by hand: {remedy}")
    keep_outputs(old, new, inert=inert)
