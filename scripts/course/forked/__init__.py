"""Launches whose ranks torchrun forks from itself: Python and torch start once, not in each rank.

`make run` and `course.run.notebooks --forked` put a cell before and one after each ordinary launch
of a notebook but its first. torchrun reads its own options from the environment: with
PET_RUN_PATH=1 it runs the program by runpy, in processes that it forks with PET_START_METHOD=fork.
What is published starts each rank as readers do: `make outputs`, `make run PLAIN=1`. So does a
machine with a GPU, because nobody has tried to fork beside CUDA. tests/campaigns/forked.py compares
what both ways compute.

The launch finds the `torchrun` of this folder ahead of its own. That one does not import torch
either: a forkserver that has done so forks torchrun. It is started by the first launch, serves
those with the same environment, and ends with the process that TORCHRUN_FOR names: a notebook's
kernel, or what runs many notebooks' cells.

A forked rank shares with torchrun, and so with the other ranks and launches, what torch read from
the environment while it was imported, and Python's hash seed: all ranks walk through a set of
strings in one order. It finds all that torchrun has imported, a submodule of torch that the program
forgot among it. It ends without `atexit`; `sys.exit()` needs a number in it, or torchrun waits for
ever; umask and limits are those of the first launch. So some launches stay plain.
"""

import os
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from course.launches import launch_of, reader

TORCHRUN = Path(__file__).resolve().parent  # the folder of the torchrun that forks
FORKED = "forked"  # the tag of the cells that we put in

# Lessons that stay plain: number → why.
PLAIN_LESSONS = {
    "12": "it breaks launches, and shows what torchrun says then",
    "13": "it starts ranks in other ways than by torchrun",
    "22": "it tells its ranks by PYTHONPATH where the frameworks are",
}
# Programs that stay plain elsewhere: name → why. So does each launch that `failure(…)` reads.
PLAIN_PROGRAMS = {
    "again": "a rank is killed, and an agent that has threads by then may hang when it forks anew",
    "grow": "it starts torchrun itself, which would read the same variables",
    "handmade": "it tells Triton to interpret before anything imports Triton",
    "kill": "it kills a Python that it has started",
    "resume": "it asks who its parent is before it imports torch, and is killed and started again",
}

# A lesson that removes OMP_NUM_THREADS shows what torchrun does then: it sets the variable, which
# is too late for a torch that torchrun itself has imported. That launch stays plain, too.
BEFORE = """import os as _os
_os.environ.setdefault("TORCHRUN_FOR", str(_os.getpid()))
_os.environ |= {settings!r} if "OMP_NUM_THREADS" in _os.environ else {{}}"""
AFTER = "_os.environ |= {settings!r}"


def search_path() -> str:
    """Where a launch finds programs, those of this Python first."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def fork(folder: Path) -> dict[str, str]:
    """The environment in which torchrun forks the ranks of a program that lies in this folder."""
    paths = [str(folder.absolute()), os.environ.get("PYTHONPATH", "")]
    return {
        "PATH": os.pathsep.join([str(TORCHRUN), search_path()]),
        "PET_RUN_PATH": "1",
        "PET_START_METHOD": "fork",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),  # runpy finds nothing beside a program
        "PYTHONUNBUFFERED": "1",  # as torchrun starts ranks otherwise, with `python -u`
    }


def plain() -> dict[str, str]:
    """The same variables as they were: torchrun starts a Python for each rank."""
    return {
        "PATH": search_path(),
        "PET_RUN_PATH": "0",
        "PET_START_METHOD": "spawn",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "PYTHONUNBUFFERED": os.environ.get("PYTHONUNBUFFERED", ""),
    }


def may_fork(launch: str, reading: str, lesson: str) -> bool:
    """Whether a launch may be forked, by its cell, the cell that reads it and its notebook."""
    command = launch_of(launch)
    if not command or command.starter != "torchrun" or command.settings:
        return False
    if lesson[:2] in PLAIN_LESSONS or command.name in PLAIN_PROGRAMS:
        return False
    return reader(reading, command.name) != "failure"


def forking(codes: list[str], lesson: str, first: bool = True) -> list[bool]:
    """Which of a notebook's cells are launches that may be forked; its first one if `first`."""
    chosen = []
    launches = 0
    for code, following in pairwise([*codes, ""]):
        launch = launch_of(code)
        launches += bool(launch and launch.starter == "torchrun" and not launch.settings)
        chosen.append((first or launches > 1) and may_fork(code, following, lesson))
    return chosen


def framed(cells: list, chosen: list[bool], folder: Path, made: Callable = str) -> list:
    """Cells in order, and around each that is chosen what lets torchrun fork, and undoes it."""
    before = BEFORE.format(settings=fork(folder))
    after = AFTER.format(settings=plain())
    every = []
    for cell, forks in zip(cells, chosen, strict=True):
        every += [made(before), cell, made(after)] if forks else [cell]
    return every


def around(cells: list[str], lesson: str, folder: Path) -> list[str]:
    """Cells that run outside of a notebook, such as those of a test, and what lets them fork."""
    return framed(cells, forking(cells, lesson), folder)


def code_of(notebook: NotebookNode) -> list[str]:
    """Its cells; "" stands for one of text."""
    return [cell.source if cell.cell_type == "code" else "" for cell in notebook.cells]


def forked(notebook: NotebookNode, lesson: str, folder: Path, first: bool = False) -> NotebookNode:
    """The notebook with the cells that make torchrun fork; `folder` is where it will begin.

    Its first launch is as readers have it: so each lesson shows that it starts for them. Unless
    `first`: in tests, which run each lesson on every push, that would be a sixth of the time.
    """
    chosen = forking(code_of(notebook), lesson, first)
    cells = framed(notebook.cells, chosen, folder, ours)
    return new_notebook(cells=cells, metadata=notebook.metadata)


def forks(notebook: NotebookNode, lesson: str) -> int:
    """How many launches of a notebook may be forked."""
    return sum(forking(code_of(notebook), lesson, first=False))


def ours(source: str) -> NotebookNode:
    return new_code_cell(source, metadata={"tags": [FORKED]})


def write_forked(path: Path, target: Path, folder: Path, first: bool) -> Path:
    """Write the variant of one notebook that begins in `folder` and forks; where it is now."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.write(forked(notebook, path.stem, folder, first), target)
    return target
