"""The notebooks as they are committed: with outputs, clean ones, a lesson's from one machine."""

import json
import os
import re
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook, new_output
from whole import SOLVED

from course.lesson import Cell, last_run
from course.outputs import waits

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parents[2]
# A pull request may leave outputs to whoever has the machine that they come from.
DEMANDED = "CI" in os.environ and os.environ.get("GITHUB_EVENT_NAME") != "pull_request"
COMMITTED = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")) + SOLVED


def problems(notebook: NotebookNode) -> list[str]:
    """What is wrong with a committed notebook.

    Its outputs are to be there, clean, and fit a screen.
    """
    found = []
    outputs = last_run(notebook)
    if not {"torch", "device", "data", "code"} <= set(outputs):
        found.append("no outputs, or not from a named machine")
    size = sum(len(json.dumps(cell.get("outputs", []))) for cell in notebook.cells)
    if size >= 135_000:  # the largest has 133 kB
        found.append(f"{size} bytes of outputs: they are to stay below 135 kB")
    for number, cell in enumerate(notebook.cells, 1):
        if cell.cell_type != "code":
            continue
        text = "".join(output.get("text", "") for output in cell.outputs)
        # What torchrun says of dead ranks does not fit a screen: it has a block for each of them.
        ranks = re.search(r"--nproc-per-node=(\d+)", cell.source)
        long = 30 * max(2, int(ranks[1]) if ranks else 2) if "Traceback" in text else 20
        wrong = {
            "was not run": not cell.execution_count,
            "holds an error": any(output.output_type == "error" for output in cell.outputs),
            "holds a warning": "Warning" in text,
            "has a picture without an alternative text": any(
                "image/png" in output.get("data", {})
                and not output.metadata.get("image/png", {}).get("alt")
                for output in cell.outputs
            ),
            "names a folder of the machine": re.search(r"/(tmp|home|root|work)/", text),
            "is longer than a screen": len(text.splitlines()) > long,
        }
        told = f": {text}" if text else ""
        found += [f"cell {number} {what}{told}" for what, is_so in wrong.items() if is_so]
    return found


@pytest.mark.parametrize(
    "path", COMMITTED, ids=lambda path: str(path.relative_to(ROOT / "notebooks"))
)
def test_committed_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    found = problems(notebook)
    if waits(notebook) and not DEMANDED:
        pytest.skip("it waits for outputs; main's CI demands them")
    name = path.stem if path.stem == "workshop" else path.stem[:2]
    remedy = f'run `make outputs LESSONS="{name} solutions/{name}"`'
    assert not found, "\n".join([*found, f"If its outputs are missing or old: {remedy}"])


def processors(notebooks: dict[str, NotebookNode]) -> dict[str, set[str]]:
    """Lesson → the processors that the outputs of it and of its solution come from."""
    found: dict[str, set[str]] = {}
    for name, notebook in notebooks.items():
        outputs = last_run(notebook)
        if outputs:
            lesson = name.removeprefix("solutions/")
            found.setdefault(lesson, set()).add(outputs.get("processor") or "none named")
    return found


def mixed(found: dict[str, set[str]]) -> list[str]:
    return [lesson for lesson, own in found.items() if len(own) > 1 or "none named" in own]


def test_outputs_of_a_lesson_and_its_solution_come_from_one_processor() -> None:
    """Times of different machines side by side would mislead."""
    notebooks = {}
    for path in COMMITTED:
        name = path.relative_to(ROOT / "notebooks").with_suffix("").as_posix()
        notebooks[name] = nbformat.read(path, as_version=4)
    found = processors(notebooks)
    assert len(found) > 20
    for lesson in mixed(found):
        remedy = f'`make outputs LESSONS="{lesson} solutions/{lesson}"` on one machine'
        pytest.fail(f"{lesson}: outputs of {sorted(found[lesson])}: {remedy}")


def test_another_processor_is_noticed() -> None:
    def made(**outputs) -> NotebookNode:
        return new_notebook(metadata={"course": {"outputs": outputs}})

    one = {"a": made(processor="X"), "solutions/a": made(processor="X"), "b": made(processor="Y")}
    assert processors(one) == {"a": {"X"}, "b": {"Y"}} and mixed(processors(one)) == []
    other = one | {"solutions/b": made(processor="X"), "c": made(torch="2.15")}
    assert mixed(processors(other)) == ["b", "c"]


@pytest.fixture
def committed() -> NotebookNode:
    """A notebook with nothing wrong."""
    output = new_output("stream", text="1\n")
    launch = "!torchrun --standalone x.py"
    cell = new_code_cell(launch, execution_count=1, outputs=[output])
    outputs = {"torch": "2.15", "device": "CPU", "data": "none", "code": "0"}
    return new_notebook(cells=[cell], metadata={"course": {"outputs": outputs}})


def test_a_good_notebook_has_no_problem(committed: NotebookNode) -> None:
    assert problems(committed) == []


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (new_output("error", ename="E", evalue="", traceback=[]), "an error"),
        (new_output("stream", text="UserWarning: old"), "a warning"),
        (new_output("stream", text="see /tmp/torchelastic_x/log"), "a folder"),
        (new_output("stream", text="line\n" * 21), "a screen"),
        (new_output("stream", text="Traceback\n" * 61), "a screen"),
        (new_output("stream", text="x" * 135_000), "135 kB"),
        (new_output("display_data", data={"image/png": ""}), "an alternative text"),
    ],
)
def test_a_bad_output_is_noticed(committed: NotebookNode, output: NotebookNode, said: str) -> None:
    committed.cells[0].outputs.append(output)
    [problem] = problems(committed)
    assert said in problem


@pytest.mark.parametrize(
    ("missing", "said"),
    [("outputs", "no outputs"), ("device", "not from a named machine"), ("count", "was not run")],
)
def test_a_notebook_that_was_not_run_here_is_noticed(committed, missing: str, said: str) -> None:
    if missing == "outputs":
        committed.metadata.course.pop("outputs")
    elif missing == "device":
        committed.metadata.course.outputs.pop("device")
    else:
        committed.cells[0].execution_count = None
    [problem] = problems(committed)
    assert said in problem


def test_the_class_notebook_has_no_outputs() -> None:
    """They would answer each question right below it."""
    notebook = nbformat.read(ROOT / "notebooks" / "workshop.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)


def test_links_to_cells_lead_to_headings() -> None:
    """The number of any other cell changes when its section gets one more."""
    headings = {}
    pages = [
        *ROOT.glob("*.md"),
        *(ROOT / "assets").rglob("*.md"),
        *(ROOT / "assets").glob("*.html"),
    ]
    texts = {path: path.read_text() for path in pages}
    for path in (ROOT / "notebooks").glob("**/*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        prose = [cell for cell in cells if cell.cell_type == "markdown"]
        headings[path] = {cell.id for cell in prose if Cell(cell).headings}
        texts[path] = "\n".join(cell.source for cell in prose)
    links = [
        (path, (path.parent / match[1]).resolve(), match[2])
        for path, text in texts.items()
        for match in re.finditer(r"([\w./]+\.ipynb)#cell-id=([\w-]+)", text)
    ]
    assert len(links) > 100
    assert len(links) == sum(text.count("cell-id=") for text in texts.values())
    wrong = []
    for path, to, cell in links:
        if not (cell in headings[to] and cell.endswith("-1")):
            wrong.append(f"{path.name} → {to.name}, {cell}")
    assert not wrong
