"""The notebooks as Kaggle runs a saved version of them: its packages, its folders, papermill, and no internet.

`make test` runs lesson 00 with Kaggle's Jupyter, whole and broken. `make test-kaggle` also does what learners do wrong
(marked thorough), and then runs every notebook, all with Kaggle's packages. Where no namespaces can be made, an empty
folder stands in for /kaggle/working, and what needs a disk or data of its own fails.
"""

import hashlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from test_mutants import SAYS, launches, mutant
from test_notebooks import COMMITTED
from torchvision.datasets import CIFAR10

ROOT = Path(__file__).resolve().parents[2]
ROOM = ROOT / "tests" / "programs" / "room.py"
LESSON = ROOT / "notebooks" / "solutions" / "00_start_here.ipynb"
# All of Kaggle's packages where `make test-kaggle` has installed them, otherwise its Jupyter around our torch.
READY = [folder for folder in (ROOT / ".venv-kaggle", ROOT / ".venv/kaggle") if (folder / "ready").exists()]
if not READY:
    raise RuntimeError("Kaggle's packages are not here: run `make test`, which installs them.")
PYTHON = READY[0] / "bin" / "python"


import cifar10
from run import MARK, end

NAMESPACES = ["unshare", "-rmn"]
HAS_ROOM = subprocess.run([*NAMESPACES, "mount", "-t", "tmpfs", "x", "/mnt"], capture_output=True).returncode == 0
needs_room = pytest.mark.usefixtures("namespaces")


@pytest.fixture
def namespaces() -> None:
    if not HAS_ROOM:
        pytest.fail("`unshare -rmn` makes no namespaces here: run the tests as root, or allow them.", pytrace=False)


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
        return "".join(o.get("text", "") + "\n".join(o.get("traceback", [])) for o in cell.get("outputs", []))


def environment() -> dict:
    """Ours, with Kaggle's Python first, and no trace of another Jupyter."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "PYTHON"))}
    return ours | {"PATH": f"{PYTHON.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"}


def save_version(notebook: Path, folder: Path, *room: str | Path, quick: bool = True, limit: float = 300) -> Version:
    """Run a notebook to its end or first error. `folder`/working outlives it; whatever it started does not."""
    for name in ("room", "working"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    executed, mark = folder / "executed.ipynb", uuid.uuid4().hex
    enter = [*NAMESPACES, sys.executable, ROOM, *room, folder / "room", folder / "working"]
    enter = enter if HAS_ROOM else ["env", "-C", folder / "working", "KAGGLE_KERNEL_RUN_TYPE=Batch"]
    parameters = nbformat.read(notebook, as_version=4).metadata.get("course", {}).get("quick", {}) if quick else {}
    command = [*enter, PYTHON, "-m", "papermill", notebook, executed, "--no-progress-bar", "--kernel", "python3"]
    command += ["-y", json.dumps(parameters)]
    start = time.monotonic()
    try:
        done = subprocess.run(command, env=environment() | {MARK: mark}, capture_output=True, text=True, timeout=limit)
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
    last = next(n for n, source in enumerate(sources) if f'result("{program}"' in source)
    return sources[: last + 1]


@pytest.fixture(scope="session")
def attached(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return attach(tmp_path_factory.mktemp("attached"))


def attach(folder: Path) -> Path:
    """A stand-in for CIFAR-10: generated pictures in its files, and Kaggle's torchvision with their MD5 sums."""
    batches, text = folder / "data" / "cifar-10-batches-py", torchvision().read_text()
    batches.mkdir(parents=True)
    made = cifar10.generate(10_000, 2_000)
    parts = [*zip(*(part.split(2_000) for part in made["train"]), strict=True), made["test"]]
    contents = [pickle.dumps({"data": x.flatten(1).numpy(), "labels": y.tolist()}) for x, y in parts]
    contents += [pickle.dumps({"label_names": [f"class {n}" for n in range(10)]})]
    names = [*CIFAR10.train_list, *CIFAR10.test_list, (CIFAR10.meta["filename"], CIFAR10.meta["md5"])]
    for (name, md5), content in zip(names, contents, strict=True):
        (batches / name).write_bytes(content)
        text = text.replace(md5, hashlib.md5(content, usedforsecurity=False).hexdigest())
    (folder / "cifar.py").write_text(text)
    return folder


def torchvision() -> Path:
    """The file of Kaggle's torchvision that knows the MD5 sums."""
    find = "import torchvision.datasets.cifar as found; print(found.__file__)"
    return Path(subprocess.run([PYTHON, "-c", find], capture_output=True, text=True, check=True).stdout.strip())


# ---- the rule of saved versions


def test_a_cell_that_raises_stops_a_version_and_a_failing_command_does_not(tmp_path: Path):
    pins = dict(
        line.split("==") for line in (ROOT / "tests/kaggle-requirements.txt").read_text().split() if "==" in line
    )
    versions = "import IPython, ipykernel, os\nassert (IPython.__version__, ipykernel.__version__) == "
    versions += f"({pins['ipython']!r}, {pins['ipykernel']!r})\nassert os.environ['KAGGLE_KERNEL_RUN_TYPE'] == 'Batch'"
    place = "assert os.getcwd() == '/kaggle/working'" if HAS_ROOM else "pass"
    cells = [versions, place, "!false", "!torchrun no_such_program.py", "print('went on')", "1 / 0", "print('too far')"]
    version = save_version(notebook(tmp_path / "a.ipynb", *cells), tmp_path)
    assert version.code == 1 and "ZeroDivisionError" in version.said
    assert version.printed("print('went on')") == "went on\n"
    assert version.printed("print('too far')") == ""
    version = save_version(notebook(tmp_path / "a.ipynb", *cells[:5]), tmp_path)
    assert version.code == 0, version.said


# ---- the launch contract


def mutants() -> list[tuple]:
    """Lesson 00's first launch broken in every way, one that hangs on a rank, and one that fails no more."""
    own = [one for one in launches() if one[0] == LESSON]
    result, failure = (next(one for one in own if one[2] == reader) for reader in ("result", "failure"))
    kinds = ["raises on rank 1", "stale results", "no torchrun"]
    hangs = (LESSON, "pulse", "result", "hangs on rank 1")
    slow = pytest.param(hangs, marks=pytest.mark.thorough)
    return [(*result, kind) for kind in kinds] + [(*failure, "succeeds"), slow]


@pytest.mark.parametrize("one", mutants(), ids=lambda one: f"{one[1]} {one[3]}")
def test_a_broken_program_stops_the_version(one: tuple, tmp_path: Path):
    version = save_version(mutant(*one, tmp_path), tmp_path)
    assert version.code == 1, version.said
    says = SAYS | {"hangs on rank 1": "{name}.py failed (exit code"}  # by its own limit: papermill has none
    assert says[one[3]].format(name=one[1]) in version.said


def test_lesson_00(tmp_path: Path):
    version = save_version(LESSON, tmp_path)
    assert version.code == 0, version.said[-3000:]
    doctor = json.loads((tmp_path / "working" / "doctor.json").read_text())
    assert doctor["kaggle"] == "Batch" and not (HAS_ROOM and doctor["online"])


# ---- what learners do, and what machines lack

thorough = pytest.mark.thorough
HELLO = beginning("00_start_here", "hello")


@thorough
def test_all_again_in_the_same_session_and_in_a_new_one(tmp_path: Path):
    version = save_version(notebook(tmp_path / "a.ipynb", *HELLO, *HELLO), tmp_path)
    assert version.code == 0, version.said
    assert save_version(notebook(tmp_path / "b.ipynb", *HELLO), tmp_path).code == 0  # among the files of the last one


@thorough
def test_cells_out_of_order_are_told_apart(tmp_path: Path):
    *before, launch, read = HELLO
    version = save_version(notebook(tmp_path / "a.ipynb", *before, read, launch), tmp_path)
    assert version.code == 1
    assert "hello.py was not launched: run the cell with `!torchrun … hello.py` first, then this one." in version.said


HANG = """%%writefile hang.py
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
Path(f"rank{dist.get_rank()}").write_text(str(os.getpid()))
if dist.get_rank() == 0:
    time.sleep(3600)
dist.all_reduce(torch.ones(1))"""


@thorough
def test_a_launch_after_an_interrupted_one(tmp_path: Path):
    """Both ranks are gone within seconds, the broken launch is no result, and the next one is whole."""
    cells, working = tmp_path / "cells", tmp_path / "working"
    parts = {"a": HELLO[:-2], "b": [HANG, "!torchrun --standalone --nproc-per-node=2 hang.py"]}
    parts["c"] = ['result("hang")', *HELLO[-2:]]
    for folder in (cells, working):
        folder.mkdir()
    for part, sources in parts.items():
        for number, source in enumerate(sources):
            (cells / f"{part}{number:02}").write_text(source)
    command = [PYTHON, ROOT / "tests" / "programs" / "interrupted.py", cells]
    done = subprocess.run(command, cwd=working, env=environment(), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["seconds"] < 30 and not found["left"]
    assert found["replies"][0].startswith("error hang.py was interrupted") and found["replies"][1:] == ["ok", "ok"]


PICTURES = beginning("03_training_loop", "cifar10")


@thorough
def test_without_data_and_internet_pictures_are_made(tmp_path: Path):
    version = save_version(notebook(tmp_path / "a.ipynb", *PICTURES), tmp_path)
    assert version.code == 0, version.said
    if HAS_ROOM:
        assert "no internet: making pictures of the same shape" in version.printed("!torchrun")


@thorough
@needs_room
@pytest.mark.parametrize("damage", ["none", "half a file"])
def test_attached_data(attached: Path, tmp_path: Path, damage: str):
    """In Kaggle's present layout; tests/test_data.py knows the older one, and every file."""
    data = tmp_path / "data"
    subprocess.run(["cp", "-r", attached / "data", data], check=True)
    bad = data / "cifar-10-batches-py" / "data_batch_3"
    if damage == "half a file":
        os.truncate(bad, 1000)
    room = ["--data", data, "--over", attached / "cifar.py", torchvision()]
    version = save_version(notebook(tmp_path / "a.ipynb", *PICTURES), tmp_path, *room)
    said = version.printed("!torchrun")
    at = "/kaggle/input/datasets/pankrzysiu/cifar10-python"
    if damage == "none":
        assert version.code == 0, version.said
        assert f"CIFAR-10: 10000 pictures to train on, 2000 to test on, from {at}\n" in said.replace("\r", "")
        return
    assert version.code == 1 and "cifar10.py failed (exit code 1)" in version.said
    told = f"{at}/cifar-10-batches-py/data_batch_3 is missing or damaged: detach the dataset and attach it again"
    assert told in said
    assert not (tmp_path / "working" / "data" / "generated.pt").exists(), "never other pictures instead"


FILL = """with open("everything", "wb", buffering=0) as file:
    try:
        while file.write(bytes(4096)):
            pass
    except OSError:
        print("full")"""


@thorough
@needs_room
@pytest.mark.parametrize(
    ("disk", "cells", "expected"),
    [
        ("ro", HELLO, "Read-only file system: 'launch.py'"),
        ("8k", HELLO, "No space left on device"),
        ("2m", [*HELLO[:-2], FILL, *HELLO[-2:]], "hello.py failed (exit code 1)"),
        ("20m", PICTURES, "cifar10.py failed (exit code 1)"),
    ],
    ids=["read-only", "full at the first file", "full at the results", "full at the pictures"],
)
def test_a_disk_that_takes_nothing_more(tmp_path: Path, disk: str, cells: list[str], expected: str):
    version = save_version(notebook(tmp_path / "a.ipynb", *cells), tmp_path, "--disk", disk)
    assert version.code == 1 and expected in version.said
    if "failed" in expected:
        full = "pictures need 400: delete files" if disk == "20m" else "No space left on device"
        assert full in version.printed("!torchrun")


def main() -> int:
    """Every notebook, or those whose names begin with an argument, with quick parameters and CIFAR-10 attached."""
    there = {path.relative_to(ROOT / "notebooks").with_suffix("").as_posix(): path for path in COMMITTED}
    chosen = [name for name in there if name.startswith(tuple(sys.argv[1:]) or "")]
    with tempfile.TemporaryDirectory() as folder:
        data = attach(Path(folder, "attached"))
        room = ["--data", data / "data", "--over", data / "cifar.py", torchvision()]
        failed = 0
        with ThreadPoolExecutor(2) as pool:
            rooms = [(there[name], Path(folder, name.replace("/", "-"))) for name in chosen]
            versions = pool.map(lambda where: save_version(*where, *room, limit=900), rooms)
            for name, version in zip(chosen, versions, strict=True):
                failed += bool(version.code)
                print(f"{name:32}{version.seconds:6.0f} s  {'FAILED' if version.code else 'ok'}", flush=True)
                if version.code:
                    print(*version.said.splitlines()[-20:], sep="\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
