"""How a program is started that measures something: the lessons' own, side by side, or ours."""

import json
import os
import subprocess
import sys
from pathlib import Path

from course import ROOT, rooms
from course.lesson import solve

LAUNCHED = Path(__file__).with_name("launched")
BUILD = ROOT / "build"


class Failed(Exception):
    """A program did not do its work: its command, and what it printed."""


def torchrun(ranks: int) -> list[str]:
    """The beginning of a command that launches so many ranks on this machine."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*launcher, f"--nproc-per-node={ranks}"]


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
    folder: Path, ranks: int, program: object, *arguments: object, limit: float = 600, **more: str
) -> dict:
    """What a program on so many ranks, one thread each, has written: NAME.json."""
    written = folder / f"{Path(program).stem}.json"
    written.unlink(missing_ok=True)
    environment = {"OMP_NUM_THREADS": "1", **more}
    start(folder, *torchrun(ranks), program, *arguments, limit=limit, **environment)
    return json.loads(written.read_text())


def programs(folder: Path, data: Path | None = None) -> Path:
    """The lessons' programs side by side in a new folder, solved, as a notebook writes them.

    `data`: a folder with CIFAR-10, for them to find; without one pictures are made.
    """
    folder.mkdir(parents=True)
    for program in rooms.programs():
        (folder / program.name).write_text(solve(program.read_text(), True, program.name) + "\n")
    if data:
        (folder / "data").symlink_to(data.resolve())
    else:
        start(folder, sys.executable, "cifar10.py")
    return folder
