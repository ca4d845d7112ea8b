"""Every program that a lesson launches is broken in many ways; its notebook must stop and name it.

`make test` breaks the programs of two launches, which the hash of the notebooks' code draws;
`make launch-faults` those of all.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import green
import nbformat
import pytest
from nbformat.v4 import new_code_cell
from whole import SOLVED

from course import same
from course.launches import reader
from course.lesson import Cell, Lesson

ROOT = Path(__file__).resolve().parents[2]
READS = re.compile(r"\b(?:result|printed|failure)\(\"|\blaunches\[")
HANGS = "hangs on rank 1"
# Seconds for a cell, with a program that hangs and without: all else ends long before.
LIMITS = {True: 30, False: 60}

# What a program's main() does instead, and what the notebook must say then.
BODIES = {
    "raises on rank 1": """if os.environ["RANK"] == last: raise RuntimeError("broken on purpose")
    original()""",
    HANGS: """if os.environ["RANK"] == last: time.sleep(3600)
    original()""",
    "writes nothing": "pass",
    "stale results": "pass",
    "no torchrun": "original()",
    "succeeds": "pass",
}
# What a program without a main() does ahead of its first line, instead or as well.
LINES = {
    "raises on rank 1": 'assert os.environ["RANK"] != last, "broken on purpose"',
    HANGS: 'time.sleep(3600 if os.environ["RANK"] == last else 0)',
    "says nothing": "sys.exit(0)",
    "no torchrun": "",
    "succeeds": "sys.exit(0)",
}
SAYS = {
    "raises on rank 1": "{name}.py failed (exit code 1)",
    HANGS: "{name}.py",
    "writes nothing": "{name}.py ended well but left no readable results",
    "stale results": "{name}.py ended well but left no readable results",
    "says nothing": 'printed("{name}")',
    "no torchrun": "{name}.py was not started: there is no torchrun here",
    "succeeds": "{name}.py succeeded, and here it was meant to fail",
}
KINDS = {  # how a launch can be broken, by who reads what it came to
    "result": [kind for kind in BODIES if kind != "succeeds"],
    "printed": [kind for kind in LINES if kind != "succeeds"],
    "failure": ["succeeds"],
}
# A cell before the launch, for some kinds.
BEFORE = {
    "no torchrun": 'import os\nos.environ["PATH"] = "/usr/bin:/bin"',
    "stale results": '!echo "{{}}" > {name}.json',
}
MAIN = '\n\nif __name__ == "__main__":'


class Fault(NamedTuple):
    path: Path  # of the notebook
    name: str  # of the program
    reads: str  # one of KINDS, which reads what the launch came to
    kind: str  # how the program is broken


def torchrun(cell: Cell) -> str:
    """The program that a cell launches by torchrun, as readers do; "" if none."""
    launch = cell.launch
    return launch.name if launch and launch.starter == "torchrun" and not launch.settings else ""


@cache
def launches() -> list[tuple[Path, str, str]]:
    """Notebook, program and reader of every program that a notebook launches, once each.

    But for a launch whose partner begins beside the notebook, in the cell before it: it is one of
    two, and waits for the other.
    """
    known = {}
    for path in sorted((ROOT / "notebooks" / "solutions").glob("*.ipynb")):
        cells = Lesson.at(path).code
        for before, cell, reading in zip(cells, cells[1:], cells[2:], strict=False):
            name = torchrun(cell)
            if name and "Begun(" not in before.source:
                known[path, name, reader(reading.source, name)] = True
    return list(known)


def broken(source: str, name: str, kind: str) -> str:
    """The cell that writes a program, with another main() in its place, or another beginning."""
    # A launch of one rank breaks on it. A notebook that imports the program has no WORLD_SIZE.
    last = '"1" if os.environ.get("WORLD_SIZE", "1") != "1" else "0"'
    if MAIN not in source:
        write, _, program = source.partition("\n")
        return f"{write}\nimport os, sys, time\nlast = {last}\n{LINES[kind]}\n{program}"
    setting = f"import os, time\n\noriginal, last = main, {last}"
    main = f"@record\ndef main():\n    {BODIES[kind]}"
    return source.replace(MAIN, f"\n\n{setting}\n\n{main}{MAIN}")


def write(fault: Fault, folder: Path) -> Path:
    """The notebook's cells up to the first such launch and its reading cell, the program broken.

    Other launches are left out.
    """
    path, name, reads, kind = fault
    notebook = nbformat.read(path, as_version=4)
    cells = []
    waiting = None
    for cell in Lesson.of(notebook).code:
        cell.node.outputs = []
        source = cell.source
        launched = torchrun(cell)
        if cell.file == f"{name}.py":
            cell.source = broken(source, name, kind)
        if cell.files or "from launch import" in source or "parameters" in cell.tags:
            cells.append(cell.node)
        elif launched == name:
            waiting = cell.node
        elif launched == "cifar10" and kind == HANGS:
            # Without pictures the other rank would fail, and torchrun end the one that hangs.
            cells.append(cell.node)
        elif waiting and reader(source, name) == reads:
            cells += [waiting, cell.node]
            break
    if kind in BEFORE:
        assert kind != "no torchrun" or not shutil.which("torchrun", path="/usr/bin:/bin")
        cells.insert(-2, new_code_cell(BEFORE[kind].format(name=name)))
    notebook.cells = cells
    target = folder / f"{path.stem}-{name}-{kind.replace(' ', '-')}.ipynb"
    nbformat.write(notebook, target)
    return target


def limit(kind: str) -> int:
    """Seconds that one cell may take."""
    return LIMITS[kind == HANGS]


def judge(code: int, said: str, name: str, kind: str) -> str:
    """ "noticed", or what is wrong with how `course.run.notebooks` ended and with what it said."""
    words = SAYS[kind].format(name=name)
    late = f"no end within {limit(kind)} s" in said
    if code != 1:
        return f"exit code {code}: the notebook did not notice\n{said}"
    if words not in said:
        return f"the notebook failed without saying “{words}”\n{said}"
    if late != (kind == HANGS):
        was = "was" if "no end" in said else "was not"
        return f"the limit of {limit(kind)} s {was} what stopped it\n{said}"
    return "noticed"


def verdict(fault: Fault) -> str:
    """Run the notebook with the broken program: "noticed", or what is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        notebook = write(fault, Path(folder))
        command = [sys.executable, "-m", "course.run.notebooks", notebook]
        command += ["--limit", str(limit(fault.kind))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    return judge(done.returncode, done.stdout + done.stderr, fault.name, fault.kind)


def matrix() -> list[Fault]:
    """Every program, broken in every way that its launch can be."""
    return [Fault(*launch, kind) for launch in launches() for kind in KINDS[launch[2]]]


def named(fault: Fault) -> str:
    return f"{fault.path.stem} {fault.name} {fault.kind}"


def drawn(salt: str, count: int = 2) -> list[Fault]:
    """All faults of some launches, each of another lesson. The workshop has the lessons' cells."""
    known = [each for each in launches() if each[2] == "result" and each[0].stem != "workshop"]
    chosen: dict[Path, tuple[Path, str, str]] = {}
    for launch in sorted(known, key=lambda each: same.digest(salt, each[0].stem, each[1])):
        chosen.setdefault(launch[0], launch)
    first = list(chosen.values())[:count]
    return [fault for fault in matrix() if fault[:3] in first]


DRAWN = drawn(same.digest([green.notebook(path) for path in SOLVED]))


@pytest.mark.rests_on(by=lambda fault: green.notebook(fault.path))
@pytest.mark.parametrize("fault", DRAWN, ids=named)
def test_the_notebook_notices(fault: Fault) -> None:
    assert verdict(fault) == "noticed"


@pytest.mark.thorough
@pytest.mark.parametrize("fault", [each for each in matrix() if each not in DRAWN], ids=named)
def test_every_notebook_notices(fault: Fault) -> None:
    assert verdict(fault) == "noticed"


@pytest.mark.parametrize(
    ("code", "said", "kind", "verdict"),
    [
        (1, "x.py failed (exit code 1)", "raises on rank 1", "noticed"),
        (0, "x.py failed (exit code 1)", "raises on rank 1", "exit code 0"),
        (2, "x.py failed (exit code 1)", "raises on rank 1", "exit code 2"),
        (1, "y.py failed (exit code 1)", "raises on rank 1", "failed without saying “x.py"),
        (
            1,
            "x.py failed (exit code 1), no end within 60 s",
            "raises on rank 1",
            "the limit of 60 s was what",
        ),
        (1, "x.py: no end within 30 s", HANGS, "noticed"),
        (1, "x.py failed (exit code 1)", HANGS, "the limit of 30 s was not"),
    ],
)
def test_the_judge_can_tell(code: int, said: str, kind: str, verdict: str) -> None:
    assert verdict in judge(code, said, "x", kind)


def test_no_cell_reads_a_launch_that_is_left_out(tmp_path: Path) -> None:
    for fault in matrix():
        *prepared, _, _ = Lesson.at(write(fault, tmp_path)).code
        written = [cell for cell in prepared if not cell.files]
        reads = [cell.source for cell in written if READS.search(cell.source)]
        assert not reads, f"{fault.path.stem}, {fault.name}: {reads}"
