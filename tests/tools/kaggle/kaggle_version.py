"""A saved version of a notebook, as Kaggle makes it: its packages, folders, papermill, no internet.

Where no namespaces can be made, an empty folder stands in for /kaggle/working, and what needs a
disk or data of its own fails.
"""

import hashlib
import json
import os
import pickle
import re
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook
from torch import Tensor
from torchvision.datasets import CIFAR10

import shapes
from course import ROOT
from course.lesson import about
from course.processes import MARK, end

PROGRAMS = ROOT / "tests" / "programs"
# All of Kaggle's packages where `make test-kaggle` has installed them, otherwise its Jupyter around
# our torch.
PLACES = (ROOT / ".venv-kaggle", ROOT / ".venv/kaggle")
READY = [folder for folder in PLACES if (folder / "ready").exists()]
if not READY:
    raise RuntimeError("Kaggle's packages are not here: run `make test`, which installs them.")
PYTHON = READY[0] / "bin" / "python"

NAMESPACES = ["unshare", "-rmn"]
TRIED = [*NAMESPACES, "mount", "-t", "tmpfs", "x", "/mnt"]
HAS_ROOM = subprocess.run(TRIED, capture_output=True).returncode == 0


@dataclass
class Version:
    """A saved version: how papermill ended, what it said, and the notebook as far as it came."""

    code: int
    said: str
    cells: list
    seconds: float

    def printed(self, start: str) -> str:
        """What the first cell that begins like this has printed or raised."""
        cell = next(cell for cell in self.cells if cell.source.startswith(start))
        texts = []
        for output in cell.get("outputs", []):
            texts.append(output.get("text", "") + "\n".join(output.get("traceback", [])))
        return "".join(texts)


def environment() -> dict[str, str]:
    """Ours, with Kaggle's Python first, and no trace of another Jupyter."""
    ours = {}
    for name, value in os.environ.items():
        if not name.startswith(("JUPYTER", "PYTHON")):
            ours[name] = value
    path = f"{PYTHON.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return ours | {"PATH": path}


def save_version(
    notebook: Path, folder: Path, *room: str | Path, quick: bool = True, limit: float = 300
) -> Version:
    """Run a notebook to its end or first error, in a room with these options (programs/room.py).

    `folder`/working outlives it; whatever it started does not.
    """
    for name in ("room", "working"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    enter = ["env", "-C", folder / "working", "KAGGLE_KERNEL_RUN_TYPE=Batch"]
    if HAS_ROOM:
        enter = [*NAMESPACES, sys.executable, PROGRAMS / "room.py", *room]
        enter += [folder / "room", folder / "working"]
    parameters = about(nbformat.read(notebook, as_version=4)).get("quick", {}) if quick else {}
    executed = folder / "executed.ipynb"
    command = [*enter, PYTHON, "-m", "papermill", notebook, executed, "--no-progress-bar"]
    command += ["--kernel", "python3", "-y", json.dumps(parameters)]
    mark = uuid.uuid4().hex
    env = environment() | {MARK: mark}
    start = time.monotonic()
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=limit)
    finally:
        end(mark)
    cells = nbformat.read(executed, as_version=4).cells if executed.exists() else []
    return Version(done.returncode, done.stdout + done.stderr, cells, time.monotonic() - start)


def notebook(path: Path, *cells: str) -> Path:
    nbformat.write(new_notebook(cells=[new_code_cell(cell) for cell in cells]), path)
    return path


def beginning(lesson: str, program: str) -> list[str]:
    """The code cells of a lesson up to the cell that reads the first launch of a program."""
    cells = nbformat.read(ROOT / "notebooks" / f"{lesson}.ipynb", as_version=4).cells
    sources = [cell.source for cell in cells if cell.cell_type == "code"]
    read = re.compile(rf'\b(?:result|printed)\("{program}"')
    last = next(n for n, source in enumerate(sources) if read.search(source))
    return sources[: last + 1]


def in_files(pictures: dict[str, tuple[Tensor, Tensor]]) -> list[bytes]:
    """Pictures as the files of CIFAR-10 hold them: five to train on, one to test on, the names."""
    x, y = pictures["train"]
    parts = [*zip(x.split(2_000), y.split(2_000), strict=True), pictures["test"]]
    contents = []
    for x, y in parts:
        contents.append(pickle.dumps({"data": x.flatten(1).numpy(), "labels": y.tolist()}))
    contents.append(pickle.dumps({"label_names": [f"class {n}" for n in range(10)]}))
    return contents


def attach(folder: Path) -> None:
    """Write a stand-in for CIFAR-10 into `folder`, and a torchvision that knows its MD5 sums."""
    batches = folder / "data" / "cifar-10-batches-py"
    batches.mkdir(parents=True)
    text = torchvision().read_text()
    names = [*CIFAR10.train_list, *CIFAR10.test_list]
    names.append((CIFAR10.meta["filename"], CIFAR10.meta["md5"]))
    contents = in_files(shapes.generate(10_000, 2_000))
    for (name, md5), content in zip(names, contents, strict=True):
        (batches / name).write_bytes(content)
        text = text.replace(md5, hashlib.md5(content, usedforsecurity=False).hexdigest())
    (folder / "cifar.py").write_text(text)


def attached_in(folder: Path) -> list[str | Path]:
    """The options of a room where such a stand-in is attached."""
    return ["--data", folder / "data", "--over", folder / "cifar.py", torchvision()]


def torchvision() -> Path:
    """The file of Kaggle's torchvision that knows the MD5 sums."""
    find = "import torchvision.datasets.cifar as found; print(found.__file__)"
    found = subprocess.run([PYTHON, "-c", find], capture_output=True, text=True, check=True)
    return Path(found.stdout.strip())
