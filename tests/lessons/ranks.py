"""Start the lessons' programs on real ranks, for tests: gloo on the CPU."""

import ast
import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from course import rooms
from course.build.python import imports
from course.forked import PLAIN_LESSONS, PLAIN_PROGRAMS, TORCHRUN

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"
SEVERAL = str(PROGRAMS / "several.py")  # runs the programs named behind it, one after another


class Launch(NamedTuple):
    """A launch that has ended."""

    folder: Path
    code: int  # torchrun's exit code
    text: str  # everything that torchrun and the ranks printed

    def reports(self, name: str, ranks: int) -> list[dict]:
        """What each rank wrote: `name.json`, `name.rank1.json` and so on."""
        names = [f"{name}.json"] + [f"{name}.rank{rank}.json" for rank in range(1, ranks)]
        return [json.loads((self.folder / each).read_text()) for each in names]


@functools.cache
def plain_programs() -> set[str]:
    """Those whose ranks must not be forked."""
    rooms_of = {path.stem: path.parent.name[:2] for path in rooms.programs()}
    plain = {stem for stem, lesson in rooms_of.items() if lesson in PLAIN_LESSONS}
    return plain | PLAIN_PROGRAMS.keys()


def environment(folder: Path, command: list[str]) -> dict[str, str]:
    """By these torchrun is forked, finds the programs, and forks the ranks where it may."""
    words = [word for each in command for word in each.split()[:1]]  # several.py has many
    named = {Path(word).stem for word in words}
    paths = [folder.absolute() / word for word in words if word.endswith(".py")]
    for path in paths:
        named |= imports(ast.parse(path.read_text()))
    settings = {} if named & plain_programs() else {"PET_RUN_PATH": "1", "PET_START_METHOD": "fork"}
    return settings | {
        "TORCHRUN_FOR": os.environ.get("TORCHRUN_FOR", str(os.getpid())),
        "PYTHONPATH": os.pathsep.join([str(path.parent) for path in paths] + [rooms.python_path()]),
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }


def launch_all(launches: dict[Path, tuple[int, list[str]]], seconds: float) -> list[Launch]:
    """Make these launches: folder → number of ranks and torchrun's command. Each ends somehow."""

    def made(folder: Path) -> Launch:
        ranks, command = launches[folder]
        options = ["--standalone", f"--nproc-per-node={ranks}"]
        done = subprocess.run(
            [sys.executable, TORCHRUN / "torchrun", *options, *command],
            cwd=folder,
            env=os.environ | environment(folder, command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=seconds,
        )
        return Launch(folder, done.returncode, done.stdout)

    return [made(folder) for folder in launches]


def in_kernel(folder: Path, cells: list[str], **settings: str) -> list[tuple[str, str]]:
    """How each cell ended ("ok", or its error) and what it printed, in a kernel that begins so."""
    done = subprocess.run(
        [sys.executable, PROGRAMS / "kernel_cells.py"],
        cwd=folder,
        env=os.environ | settings,
        input=json.dumps(cells),
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def launch(folder: Path, ranks: int, *command: str, seconds: float = 120) -> Launch:
    """Make one launch, which must succeed."""
    [ended] = launch_all({folder: (ranks, list(command))}, seconds)
    assert ended.code == 0, ended.text
    return ended
