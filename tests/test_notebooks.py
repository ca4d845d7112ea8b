"""The notebooks as their readers meet them: run whole, each from an empty folder, and as they are committed."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).resolve().parents[1]
SOLVED = sorted((ROOT / "notebooks" / "solutions").glob("*.ipynb"))
COMMITTED = sorted((ROOT / "notebooks").glob("*.ipynb")) + SOLVED

# In every launched program a deprecation is an error. Exceptions are torch's own, as "message": torch version.
DEPRECATED = ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning")
TORCHS_OWN: dict[str, str] = {}
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
    """The solved notebook, then, in the same kernel, the unsolved sections that differ. Deprecations are errors."""
    cells, unsolved = [], sections(ROOT / "notebooks" / solved.name)
    for section in sections(solved).values():
        for cell in section:
            cells.append(cell)
            if "from launch import" in cell.source:
                cells.append(new_code_cell(f'import os\nos.environ["PYTHONWARNINGS"] = {",".join(FILTERS)!r}'))
    different = 0
    for heading, section in sections(solved).items():
        if [cell.source for cell in section] != [cell.source for cell in unsolved[heading]]:
            cells += [new_code_cell(cell.source) for cell in unsolved[heading]]
            different += 1
    assert different >= 2, "a lesson has at least two exercises"
    metadata = nbformat.read(solved, as_version=4).metadata
    nbformat.write(new_notebook(cells=cells, metadata=metadata), folder / solved.name)
    return folder / solved.name


def run(notebooks: list[Path], folder: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, ROOT / "scripts" / "run.py", *notebooks, "--quick", "--limit", "120"]
    return subprocess.run([*command, "--site", folder / "site"], capture_output=True, text=True, timeout=900)


def test_every_notebook_runs_from_an_empty_folder(tmp_path: Path) -> None:
    done = run([both(path, tmp_path) for path in SOLVED], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_deprecated_call_is_caught(tmp_path: Path) -> None:
    program = "from torch.cuda.amp import autocast\nautocast()\nopen('old.json', 'w').write('{}')"
    helper = (ROOT / "scripts" / "lessons" / "launch.py").read_text()
    cells = [f"%%writefile launch.py\n{helper}", "from launch import result", f"%%writefile old.py\n{program}"]
    cells += ["!torchrun --standalone --nproc-per-node=1 old.py", 'result("old")']
    strict = [*cells[:2], f'import os\nos.environ["PYTHONWARNINGS"] = {",".join(FILTERS)!r}', *cells[2:]]
    for name, sources in [("loose", cells), ("strict", strict)]:
        nbformat.write(new_notebook(cells=[new_code_cell(cell) for cell in sources]), tmp_path / f"{name}.ipynb")
    assert run([tmp_path / "loose.ipynb"], tmp_path).returncode == 0
    assert run([tmp_path / "strict.ipynb"], tmp_path).returncode == 1
    assert "FutureWarning: `torch.cuda.amp.autocast" in (tmp_path / "site" / "strict.html").read_text()


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: str(path.relative_to(ROOT / "notebooks")))
def test_committed_outputs(path: Path) -> None:
    """Outputs are there, come from a named machine, hold no error and no unexplained warning, and fit a screen."""
    notebook = nbformat.read(path, as_version=4)
    assert {"torch", "device", "data", "code"} <= set(notebook.metadata.course.outputs)
    assert path.stat().st_size < 200_000 + sum(len(cell.source) for cell in notebook.cells)
    for number, cell in enumerate(notebook.cells, 1):
        if cell.cell_type != "code":
            continue
        assert cell.execution_count, f"cell {number} was not run"
        text = "".join(output.get("text", "") for output in cell.outputs)
        errors = [output for output in cell.outputs if output.output_type == "error"]
        assert not errors and "Warning" not in text, f"cell {number}: {text}{errors}"
        assert not re.search(r"/(tmp|home|root|work)/", text), f"cell {number} names a folder of the machine: {text}"
        launched = cell.source.startswith("!torchrun")
        assert len(text.splitlines()) <= (60 if launched and "Traceback" in text else 20), f"cell {number}: {text}"
