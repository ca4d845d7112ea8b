"""The notebooks as their readers meet them: run whole, each from an empty folder, and as they are committed."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).resolve().parents[1]
COMMITTED = sorted((ROOT / "notebooks").glob("*.ipynb")) + sorted((ROOT / "notebooks" / "solutions").glob("*.ipynb"))

# In every launched program a deprecation is an error. Exceptions are torch's own, as "message": torch version.
DEPRECATED = ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning")
TORCHS_OWN: dict[str, str] = {}
FILTERS = [f"error::{kind}" for kind in DEPRECATED] + [f"ignore:{message}" for message in TORCHS_OWN]


def strict(path: Path, folder: Path) -> Path:
    """A copy whose launches treat deprecation warnings as errors."""
    notebook = nbformat.read(path, as_version=4)
    first = next(n for n, cell in enumerate(notebook.cells) if "from launch import" in cell.source)
    notebook.cells.insert(first + 1, new_code_cell(f'import os\nos.environ["PYTHONWARNINGS"] = {",".join(FILTERS)!r}'))
    target = folder / f"{'solved' if path.parent.name == 'solutions' else 'unsolved'}-{path.name}"
    nbformat.write(notebook, target)
    return target


def run(notebooks: list[Path], folder: Path) -> subprocess.CompletedProcess:
    command = [
        sys.executable,
        ROOT / "scripts" / "run.py",
        *notebooks,
        "--quick",
        "--limit",
        "120",
        "--site",
        folder / "site",
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=900)


def test_every_notebook_runs_from_an_empty_folder(tmp_path: Path) -> None:
    done = run([strict(path, tmp_path) for path in COMMITTED], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_deprecated_call_is_caught(tmp_path: Path) -> None:
    program = "from torch.cuda.amp import autocast\nautocast()\nopen('old.json', 'w').write('{}')"
    helper = (ROOT / "scripts" / "lessons" / "launch.py").read_text()
    cells = [f"%%writefile launch.py\n{helper}", "from launch import result", f"%%writefile old.py\n{program}"]
    cells += ["!torchrun --standalone --nproc-per-node=1 old.py", 'result("old")']
    nbformat.write(new_notebook(cells=[new_code_cell(cell) for cell in cells]), tmp_path / "old.ipynb")
    (tmp_path / "strict").mkdir()
    done = run([strict(tmp_path / "old.ipynb", tmp_path / "strict")], tmp_path)
    assert done.returncode == 1 and "FutureWarning" in done.stdout
    assert run([tmp_path / "old.ipynb"], tmp_path).returncode == 0  # and it is the net that catches it


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
        launched = cell.source.startswith("!torchrun")
        assert len(text.splitlines()) <= (60 if launched and "Traceback" in text else 20), f"cell {number}: {text}"
