"""The notebooks as their readers meet them: run whole, each from an empty folder, and as they are committed."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

import rooms

ROOT = Path(__file__).resolve().parents[2]
SOLVED = sorted((ROOT / "notebooks" / "solutions").glob("*.ipynb"))
COMMITTED = sorted((ROOT / "notebooks").glob("*.ipynb")) + SOLVED

# In every launched program a deprecation is an error. Exceptions are torch's own, as "message": torch version.
DEPRECATED = ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning")
TORCHS_OWN = {"`torch.jit.script_method` is deprecated": "2.10, when Inductor is imported"}
FILTERS = [f"error::{kind}" for kind in DEPRECATED] + [f"ignore:{message}" for message in TORCHS_OWN]


def sections(path: Path) -> dict[str, list[nbformat.NotebookNode]]:
    """The code cells under each heading."""
    found, heading = {}, ""
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            headings = re.findall(r"^#+ .*", cell.source, re.MULTILINE)
            heading = headings[-1] if headings else heading
        else:
            found.setdefault(heading, []).append(cell)
    return found


def both(solved: Path, folder: Path) -> Path:
    """The solved notebook, then, in the same kernel, the unsolved sections that differ. Deprecations are errors.

    The workshop runs unsolved only, as a class begins it: solved, its programs are those of the lessons.
    """
    cells, unsolved = [], sections(ROOT / "notebooks" / solved.name)
    first = unsolved if solved.stem == "workshop" else sections(solved)
    for section in first.values():
        for cell in section:
            cells.append(cell)
            if "from launch import" in cell.source:
                cells.append(new_code_cell(f'import os\nos.environ["PYTHONWARNINGS"] = {",".join(FILTERS)!r}'))
    different = 0
    for heading, section in first.items():
        if [cell.source for cell in section] != [cell.source for cell in unsolved[heading]]:
            cells += [new_code_cell(cell.source) for cell in unsolved[heading]]
            different += 1
    assert different >= 2 or solved.stem == "workshop", "a lesson has at least two exercises"
    metadata = nbformat.read(solved, as_version=4).metadata
    nbformat.write(new_notebook(cells=cells, metadata=metadata), folder / solved.name)
    return folder / solved.name


def run(notebooks: list[Path], folder: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, ROOT / "scripts" / "run.py", *notebooks, "--quick", "--limit", "120"]
    return subprocess.run(
        [*command, "--site", folder / "site"], capture_output=True, text=True, timeout=120 * len(notebooks)
    )


def test_every_notebook_runs_from_an_empty_folder(tmp_path: Path) -> None:
    done = run([both(path, tmp_path) for path in SOLVED], tmp_path)
    print(done.stdout)  # with `-rP`: seconds of each
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_deprecated_call_is_caught(tmp_path: Path) -> None:
    program = "from torch.cuda.amp import autocast\nautocast()\nopen('old.json', 'w').write('{}')"
    helper = rooms.program("launch").read_text()
    cells = [f"%%writefile launch.py\n{helper}", "from launch import result", f"%%writefile old.py\n{program}"]
    cells += ["!torchrun --standalone --nproc-per-node=1 old.py", 'result("old")']
    strict = [*cells[:2], f'import os\nos.environ["PYTHONWARNINGS"] = {",".join(FILTERS)!r}', *cells[2:]]
    for name, sources in [("loose", cells), ("strict", strict)]:
        nbformat.write(new_notebook(cells=[new_code_cell(cell) for cell in sources]), tmp_path / f"{name}.ipynb")
    assert run([tmp_path / "loose.ipynb"], tmp_path).returncode == 0
    assert run([tmp_path / "strict.ipynb"], tmp_path).returncode == 1
    assert "FutureWarning: `torch.cuda.amp.autocast" in (tmp_path / "site" / "strict.html").read_text()


def problems(notebook: nbformat.NotebookNode, size: int) -> list[str]:
    """What is wrong with a committed notebook of `size` bytes: its outputs are to be there, clean, and fit a screen."""
    found = []
    if not {"torch", "device", "data", "code"} <= set(notebook.metadata.get("course", {}).get("outputs", {})):
        found.append("no outputs, or not from a named machine")
    if size >= 200_000 + sum(len(cell.source) for cell in notebook.cells):
        found.append(f"{size} bytes: outputs are to stay below 200 kB")
    for number, cell in enumerate(notebook.cells, 1):
        if cell.cell_type != "code":
            continue
        text = "".join(output.get("text", "") for output in cell.outputs)
        long = 60 if cell.source.startswith("!torchrun") and "Traceback" in text else 20
        wrong = {
            "was not run": not cell.execution_count,
            "holds an error": any(output.output_type == "error" for output in cell.outputs),
            "holds a warning": "Warning" in text,
            "names a folder of the machine": re.search(r"/(tmp|home|root|work)/", text),
            "is longer than a screen": len(text.splitlines()) > long,
        }
        found += [f"cell {number} {what}: {text}" for what, is_so in wrong.items() if is_so]
    return found


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: str(path.relative_to(ROOT / "notebooks")))
def test_committed_outputs(path: Path) -> None:
    assert not problems(nbformat.read(path, as_version=4), path.stat().st_size)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda n: None, ""),
        (lambda n: n.metadata.course.pop("outputs"), "no outputs"),
        (lambda n: n.metadata.course.outputs.pop("device"), "not from a named machine"),
        (lambda n: n.cells[0].update(source="x" * 10, outputs=[new_output("stream", text="x" * 300_000)]), "200 kB"),
        (lambda n: n.cells[0].update(execution_count=None), "was not run"),
        (lambda n: n.cells[0].outputs.append(new_output("error", ename="E", evalue="", traceback=[])), "an error"),
        (lambda n: n.cells[0].outputs.append(new_output("stream", text="UserWarning: old")), "a warning"),
        (lambda n: n.cells[0].outputs.append(new_output("stream", text="see /tmp/torchelastic_x/log")), "a folder"),
        (lambda n: n.cells[0].outputs.append(new_output("stream", text="line\n" * 21)), "a screen"),
        (lambda n: n.cells[0].outputs.append(new_output("stream", text="Traceback\n" * 61)), "a screen"),
    ],
)
def test_a_bad_output_is_noticed(change, said: str) -> None:
    cell = new_code_cell("!torchrun --standalone x.py", execution_count=1, outputs=[new_output("stream", text="1\n")])
    outputs = {"torch": "2.15", "device": "CPU", "data": "none", "code": "0"}
    notebook = new_notebook(cells=[cell], metadata={"course": {"outputs": outputs}})
    change(notebook)
    found = problems(notebook, len(nbformat.writes(notebook)))
    assert [said in each for each in found] == [True] * bool(said)
