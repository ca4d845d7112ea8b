"""How the bench starts the programs that measure something, and reads their results."""

import json
import os
import subprocess
import sys
from pathlib import Path

from course import ROOT, rooms
from course.lesson import solve

LAUNCHED = Path(__file__).with_name("launched")
BUILD = ROOT / "build"
BIN = Path(sys.executable).parent


class Failed(Exception):
    """A program did not do its work: its name, and what it printed."""


def start(folder: Path, *command: object, limit: float = 600, **environment: str) -> None:
    """Run a command in `folder` to its end. Failed if it fails, or takes longer than `limit` s."""
    words = [str(word) for word in command]
    line = " ".join(words)
    options = {"cwd": folder, "env": os.environ | environment}
    try:
        done = subprocess.run(words, **options, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise Failed(f"{line} was not through after {limit:g} s") from None
    if done.returncode != 0:
        raise Failed(f"{line} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def launch(
    folder: Path,
    ranks: int,
    program: object,
    *arguments: object,
    python: Path = BIN / "python",
    limit: float = 600,
    results: str = "",
    **environment: str,
) -> dict:
    """What a program on so many ranks, one thread each, has written: NAME.json, or `results`."""
    torchrun = [python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    written = folder / (results or f"{Path(program).stem}.json")
    written.unlink(missing_ok=True)
    environment = {"OMP_NUM_THREADS": "1", **environment}
    start(folder, *torchrun, program, *arguments, limit=limit, **environment)
    return json.loads(written.read_text())


def launch_own(folder: Path, ranks: int, program: Path, *arguments: object, **more) -> dict:
    """`launch` for a program of the bench itself, which imports what the lessons teach."""
    path = os.pathsep.join([more.pop("beside", ""), rooms.python_path()]).strip(os.pathsep)
    return launch(folder, ranks, program, *arguments, PYTHONPATH=path, **more)


def lessons(folder: Path, data: Path | None = None, network: Path | None = None) -> Path:
    """The lessons' programs side by side in a new folder, solved, as a notebook writes them.

    `data`: a folder with CIFAR-10, for them to find; `network`: a program in place of model.py.
    """
    folder.mkdir()
    for program in rooms.programs():
        (folder / program.name).write_text(solve(program.read_text(), True, program.name) + "\n")
    if network:
        (folder / "model.py").write_text(network.read_text())
    if data:
        (folder / "data").symlink_to(data.resolve())
    return folder


def originals(data: Path) -> bool:
    """Whether a folder holds CIFAR-10's own files, and not the same pictures in another form."""
    from torchvision.datasets import CIFAR10  # it takes long, and few need it
    from torchvision.datasets.utils import check_integrity

    files = CIFAR10.train_list + CIFAR10.test_list
    return all(check_integrity(data / CIFAR10.base_folder / name, md5) for name, md5 in files)
