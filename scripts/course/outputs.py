"""A notebook as a file: where it comes from, and the outputs of its last run."""

import base64
import functools
import io
import re
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from PIL import Image

from course import same
from course.languages import in_one
from course.lesson import WRITE, Lesson, about, demand, file_of, files_of, tags

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
COLOURS = 64
BADGES = re.compile(r"^\[!\[Open in .*\n\n", re.MULTILINE)


def fingerprint(cells: list[NotebookNode]) -> str:
    """A hash of what the cells say, without the cell that papermill injects."""
    own = [cell for cell in cells if "injected-parameters" not in tags(cell)]
    texts = [f"{cell.cell_type}\n{cell.source}" for cell in own]
    return same.letters("\0".join(texts), 16)


def notebook(lesson: Lesson, generated_from: str, course: dict) -> NotebookNode:
    """A notebook of these cells that says what it was made from."""
    plain = [cell.node for cell in lesson.cells]
    course = course | {"generated_from": generated_from}
    metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}, "course": course}
    return new_notebook(cells=plain, metadata=metadata)


def in_language(notebook: NotebookNode, code: str) -> None:
    """Leave each Markdown cell in one language. Its badges go: they open the notebook in both."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = BADGES.sub("", in_one(cell.source, code))
    notebook.metadata.course["language"] = code
    seal(notebook)


def seal(notebook: NotebookNode) -> None:
    """Record what the finished notebook says, so that a change by hand is noticed."""
    notebook.metadata.course["built"] = fingerprint(notebook.cells)


def as_text(notebook: NotebookNode) -> str:
    return nbformat.writes(notebook) + "\n"


class Inert(NamedTuple):
    """A program, or a cell by its id, that changed and prints the same; and the reason why."""

    name: str
    why: str


NOTHING = Inert("", "")


@functools.cache
def runs(source: str) -> str:
    """The part of a cell that decides what it prints."""
    first, _, program = source.partition("\n")
    if WRITE.fullmatch(first):
        return f"{first}\n{same.placed(program) if first.endswith('.py') else program}"
    return same.cell(source)


def alike(before: str, after: str, printed: str) -> bool:
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


def parts(cell: NotebookNode) -> dict[str, NotebookNode]:
    """For each file that a cell writes, a cell that writes it alone."""
    single = {}
    for name, text in files_of(cell.source).items():
        single[name] = NotebookNode(cell | {"source": f"%%writefile {name}\n{text}"})
    return single


class Run(NamedTuple):
    """A cell that ran, and the cells that had written the files that were there then."""

    cell: NotebookNode
    files: dict[str, NotebookNode]


def history(cells: list[NotebookNode]) -> tuple[list[Run], dict[str, list[NotebookNode]]]:
    """What ran, in order; and the cells that wrote each file, by its name."""
    ran = []
    writers: dict[str, list[NotebookNode]] = {}
    for cell in cells:
        written = parts(cell)
        for name, part in written.items():
            writers.setdefault(name, []).append(part)
        if not written:
            ran.append(Run(cell, {each: own[-1] for each, own in writers.items()}))
    return ran, writers


def keep_outputs(
    old: NotebookNode, new: NotebookNode, machine: dict | None = None, inert: Inert = NOTHING
) -> int:
    """Copy outputs while what a cell runs is the same, and so are the code and the files before it.

    Where a file is written does not count, as long as it is there. A change ends it, unless `inert`
    names what was changed: the notebook keeps that reason. A cell that papermill injected ends it:
    what follows ran with other parameters. The pieces of a stream are joined. Returns how many
    cells kept their outputs.
    """
    befores = [cell for cell in old.cells if cell.cell_type == "code"]
    printed = everything_printed(befores)
    ran, writers = history(befores)
    files: dict[str, NotebookNode] = {}  # those of the new notebook
    kept: list[NotebookNode] = []
    excused = False
    for after in [cell for cell in new.cells if cell.cell_type == "code"]:
        written = parts(after)
        files |= written
        if written:
            known = [name for name in written if writers.get(name)]
            if not known:  # files that are new change nothing before them
                continue
            pairs = [(writers[name].pop(0), written[name]) for name in known]
            before = pairs[0][0] if file_of(after.source) else ran_quietly(pairs)
        else:
            before, there = ran.pop(0) if ran else Run(new_code_cell(), {})
            if not there.keys() <= files.keys():
                break
            pairs = [(before, after), *((there[each], files[each]) for each in there)]
        differ = [now for then, now in pairs if not alike(then.source, now.source, printed)]
        if any(inert.name != (file_of(each.source) or each.id) for each in differ):
            break
        excused = excused or bool(differ)
        take_over(before, after)
        if after.execution_count or after.outputs:
            kept.append(after)
            number(after, len(kept))
    machine = machine or about(old).get("outputs")
    if machine and kept:
        outputs = dict(machine) | {"code": fingerprint(kept)}
        if excused:
            reasons = [outputs.get("inert", ""), f"{inert.name}: {inert.why}"]
            outputs["inert"] = "; ".join(dict.fromkeys(filter(None, reasons)))
        new.metadata.course["outputs"] = outputs
    return len(kept)


def ran_quietly(pairs: list[tuple[NotebookNode, NotebookNode]]) -> NotebookNode:
    """A cell that has run if those that wrote its files have, and says nothing."""
    return new_code_cell(execution_count=pairs[0][0].execution_count)


def take_over(before: NotebookNode, after: NotebookNode) -> None:
    after.outputs = before.outputs
    after.execution_count = before.execution_count
    CoalesceStreamsPreprocessor().preprocess_cell(after, {}, 0)
    for output in after.outputs:
        clean(output)


def number(cell: NotebookNode, count: int) -> None:
    """Number a cell that ran by its place among them, and with it the value that it shows."""
    if cell.execution_count:
        cell.execution_count = count
    for output in cell.outputs:
        if output.output_type == "execute_result":
            output.execution_count = count


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


def inherit(new: NotebookNode, path: Path, name: str, force: bool, inert: Inert) -> None:
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


def waits(notebook: dict) -> bool:
    """Whether a notebook has a code cell that was not run since it was changed."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return not all(cell["execution_count"] for cell in cells)
