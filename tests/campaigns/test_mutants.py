"""Every program that a lesson launches is broken in five ways; its notebook must stop, in time, and name the program.

`make test` meets one program of each lesson, broken in one way, and another one after each commit; `make mutants` runs
all and prints a table.
"""

import itertools
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = re.compile(r"^!torchrun .*?(\w+)\.py\b.*$")
LIMITS = {True: 20, False: 40}  # seconds for a cell, with a program that hangs and without: all else ends long before

# What a program's main() does instead, and what the notebook must say then.
BODIES = {
    "raises on rank 1": 'if os.environ["RANK"] == last: raise RuntimeError("broken on purpose")\n    original()',
    "hangs on rank 1": 'if os.environ["RANK"] == last: time.sleep(3600)\n    original()',
    "writes nothing": "pass",
    "stale results": "pass",
    "no torchrun": "original()",
    "succeeds": "pass",
}
SAYS = {
    "raises on rank 1": "{name}.py failed (exit code 1)",
    "hangs on rank 1": "{name}.py",
    "writes nothing": "{name}.py ended well but left no readable results",
    "stale results": "{name}.py ended well but left no readable results",
    "no torchrun": "{name}.py was not started: there is no torchrun here",
    "succeeds": "{name}.py succeeded, and here it was meant to fail",
}
KINDS = list(SAYS)[:-1]
MAIN = '\n\nif __name__ == "__main__":'


def launches() -> list[tuple[Path, str, str]]:
    """Notebook, program and reader (`result` or `failure`) of every program that a notebook launches, once each."""
    found = {}
    for path in sorted((ROOT / "notebooks" / "solutions").glob("*.ipynb")):
        cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        for cell, reading in itertools.pairwise(cells):
            if match := LAUNCH.match(cell.source):
                reader = "failure" if f'failure("{match[1]}"' in reading.source else "result"
                found[path, match[1], reader] = None
    return list(found)


def mutant(path: Path, name: str, reader: str, kind: str, folder: Path) -> Path:
    """The notebook's cells up to the first such launch and its reading cell, other launches left out, `name` broken."""
    notebook = nbformat.read(path, as_version=4)
    cells = []
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
        cell.outputs = []
        tags, source = cell.metadata.get("tags", []), cell.source
        launch = LAUNCH.match(source)
        if source.startswith(f"%%writefile {name}.py"):
            assert MAIN in source, f"{name}.py has no main guard"
            last = '"1" if os.environ["WORLD_SIZE"] != "1" else "0"'  # a launch of one rank breaks on that one
            broken = f"import os, time\n\noriginal, last = main, {last}\n\n@record\ndef main():\n    {BODIES[kind]}"
            cell.source = source.replace(MAIN, f"\n\n{broken}{MAIN}")
        if "parameters" in tags or source.startswith("%%writefile") or "from launch import" in source:
            cells.append(cell)
        elif launch and launch[1] == name:
            waiting = cell
        elif launch and launch[1] == "cifar10" and kind == "hangs on rank 1":
            cells.append(cell)  # without pictures the other rank would fail, and torchrun end the one that hangs
        elif f'{reader}("{name}"' in source:
            cells += [waiting, cell]
            break
    before = {
        "no torchrun": 'import os\nos.environ["PATH"] = "/usr/bin:/bin"',
        "stale results": f'!echo "{{}}" > {name}.json',
    }
    if kind in before:
        assert kind != "no torchrun" or not shutil.which("torchrun", path="/usr/bin:/bin")
        cells.insert(-2, new_code_cell(before[kind]))
    notebook.cells = cells
    target = folder / f"{path.stem}-{name}-{kind.replace(' ', '-')}.ipynb"
    nbformat.write(notebook, target)
    return target


def limit(kind: str) -> int:
    return LIMITS[kind == "hangs on rank 1"]


def judge(code: int, said: str, name: str, kind: str) -> str:
    """ "noticed", or what is wrong with how `run.py` ended and with what it said."""
    if code != 1:
        return f"exit code {code}: the notebook did not notice\n{said}"
    if SAYS[kind].format(name=name) not in said:
        return f"the notebook failed without saying “{SAYS[kind].format(name=name)}”\n{said}"
    if (f"no end within {limit(kind)} s" in said) != (kind == "hangs on rank 1"):
        return f"the limit of {limit(kind)} s {'was' if 'no end' in said else 'was not'} what stopped it\n{said}"
    return "noticed"


def verdict(path: Path, name: str, reader: str, kind: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        notebook = mutant(path, name, reader, kind, Path(folder))
        command = [sys.executable, ROOT / "scripts" / "run.py", notebook, "--limit", str(limit(kind))]
        command += ["--site", folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=160)
    return judge(done.returncode, done.stdout + done.stderr, name, kind)


def matrix() -> list[tuple[Path, str, str, str]]:
    kinds = {"result": KINDS, "failure": ["succeeds"]}
    return [(path, name, reader, kind) for path, name, reader in launches() for kind in kinds[reader]]


def commits() -> int:
    counted = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return int(counted.stdout or 0)


def chosen(commits: int) -> list[tuple[Path, str, str, str]]:
    """One of each lesson; which one moves on with every commit. The workshop has the same cells."""
    lessons = [list(own) for _, own in itertools.groupby(matrix(), lambda one: one[0])]
    return [own[(commits + n) % len(own)] for n, own in enumerate(lessons) if own[0][0].stem != "workshop"]


@pytest.fixture(scope="module")
def verdicts() -> dict[tuple, str]:
    """Two at a time, since most of a mutant's time is waiting."""
    with ThreadPoolExecutor(2) as pool:
        now = chosen(commits())
        return dict(zip(now, pool.map(lambda one: verdict(*one), now), strict=True))


@pytest.mark.parametrize("one", chosen(commits()), ids=lambda one: f"{one[0].stem}: {one[1]} {one[3]}")
def test_the_notebook_notices(one: tuple, verdicts: dict[tuple, str]) -> None:
    assert verdicts[one] == "noticed"


@pytest.mark.parametrize(
    ("code", "said", "kind", "verdict"),
    [
        (1, "x.py failed (exit code 1)", "raises on rank 1", "noticed"),
        (0, "x.py failed (exit code 1)", "raises on rank 1", "exit code 0"),
        (2, "x.py failed (exit code 1)", "raises on rank 1", "exit code 2"),
        (1, "y.py failed (exit code 1)", "raises on rank 1", "failed without saying “x.py"),
        (1, "x.py failed (exit code 1), no end within 40 s", "raises on rank 1", "the limit of 40 s was what"),
        (1, "x.py: no end within 20 s", "hangs on rank 1", "noticed"),
        (1, "x.py failed (exit code 1)", "hangs on rank 1", "the limit of 20 s was not"),
    ],
)
def test_the_judge_can_tell(code: int, said: str, kind: str, verdict: str) -> None:
    assert verdict in judge(code, said, "x", kind)


def test_every_mutant_has_its_turn() -> None:
    met = {one for commits in range(len(matrix())) for one in chosen(commits)}
    assert met == {one for one in matrix() if one[0].stem != "workshop"}
    assert {one[3] for one in met} == set(SAYS)


if __name__ == "__main__":
    with ThreadPoolExecutor(2) as pool:
        table = list(zip(matrix(), pool.map(lambda one: verdict(*one), matrix()), strict=True))
    for (path, name, _, kind), found in table:
        print(f"{path.stem:24}{name:12}{kind:20}{found.splitlines()[0]}")
    survived = sum(found != "noticed" for _, found in table)
    print(f"{len(table)} mutants, {survived} not noticed")
    sys.exit(bool(survived))
