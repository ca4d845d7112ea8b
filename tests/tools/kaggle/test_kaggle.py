"""The notebooks as Kaggle runs a saved version of them (kaggle_version.py).

`make test` runs lesson 00 with Kaggle's Jupyter, whole, and broken in one way. `make test-kaggle`
also breaks it in others, does what learners do wrong, and runs every notebook, all with Kaggle's
packages (marked thorough).
"""

import json
import os
import subprocess
from pathlib import Path

import nbformat
import pytest
from kaggle_version import (
    HAS_ROOM,
    PROGRAMS,
    PYTHON,
    ROOT,
    attach,
    attached_in,
    beginning,
    environment,
    notebook,
    save_version,
)
from once import once
from test_00_start_here import check_watched, in_kernel, launching
from test_committed import COMMITTED
from test_launch_faults import SAYS, Fault, launches, write
from test_publish import DEFAULTS, beside_kaggle, publish

from course import rooms
from course.evidence.kept import numbers
from course.evidence.record import mark, read, what_runs
from course.lesson import Lesson

LESSON = ROOT / "notebooks" / "solutions" / "00_start_here.ipynb"
HELLO = beginning("00_start_here", "hello")
WAVES = beginning("00_start_here", "waves")
PICTURES = beginning("03_training_loop", "cifar10")

thorough = pytest.mark.thorough
needs_room = pytest.mark.usefixtures("namespaces")


@pytest.fixture
def namespaces() -> None:
    if not HAS_ROOM:
        remedy = "run the tests as root, or allow them"
        pytest.fail(f"`unshare -rmn` makes no namespaces here: {remedy}.", pytrace=False)


@pytest.fixture(scope="session")
def attached(tmp_path_factory: pytest.TempPathFactory) -> list[str | Path]:
    """The options of a room that has CIFAR-10, or what passes for it."""
    return attached_in(once(tmp_path_factory, "attached", attach))


# ---- the rule of saved versions


def test_a_cell_that_raises_stops_a_version_and_a_failing_command_does_not(tmp_path: Path):
    pinned = (ROOT / "tests/kaggle-requirements.txt").read_text().split()
    pins = dict(line.split("==") for line in pinned if "==" in line)
    versions = f"""import IPython, ipykernel, os
assert IPython.__version__ == {pins["ipython"]!r}
assert ipykernel.__version__ == {pins["ipykernel"]!r}
assert os.environ["KAGGLE_KERNEL_RUN_TYPE"] == "Batch\""""
    place = "assert os.getcwd() == '/kaggle/working'" if HAS_ROOM else "pass"
    goes_on = [versions, place, "!false", "!torchrun no_such_program.py", "print('went on')"]
    cells = [*goes_on, "1 / 0", "print('too far')"]
    version = save_version(notebook(tmp_path / "a.ipynb", *cells), tmp_path)
    assert version.code == 1
    assert "ZeroDivisionError" in version.said
    assert version.printed("print('went on')") == "went on\n"
    assert version.printed("print('too far')") == ""


# ---- the launch contract


def broken() -> list:
    """Lesson 00's first launches broken in every way; one that hangs, and one that succeeds."""
    own = [launch for launch in launches() if launch[0] == LESSON]
    result = next(launch for launch in own if launch[2] == "result")
    failure = next(launch for launch in own if launch[2] == "failure")
    others = [Fault(*result, kind) for kind in ("stale results", "no torchrun")]
    others.append(Fault(*failure, "succeeds"))
    others.append(Fault(LESSON, "pulse", "result", "hangs on rank 1"))
    rare = [pytest.param(fault, marks=thorough) for fault in others]
    return [Fault(*result, "raises on rank 1"), *rare]


@pytest.mark.parametrize("fault", broken(), ids=lambda fault: f"{fault.name} {fault.kind}")
def test_a_broken_program_stops_the_version(fault: Fault, tmp_path: Path):
    version = save_version(write(fault, tmp_path), tmp_path)
    assert version.code == 1, version.said
    # A hang is ended by the program's own limit: papermill has none.
    says = SAYS | {"hangs on rank 1": "{name}.py failed (exit code"}
    assert says[fault.kind].format(name=fault.name) in version.said


@pytest.mark.parametrize("line", ["python job.py", "OURS=1 python job.py", "sbatch queue.sh"])
def test_other_ways_to_start_a_program_are_watched(line: str, tmp_path: Path):
    name = "queue" if "queue" in line else "job"
    endings = in_kernel(tmp_path, launching(line, name), python=PYTHON)
    check_watched(endings, name)


def test_lesson_00_and_back_again(tmp_path: Path):
    """As it is pushed: it records its run, and the server hands out what it has left."""
    kernel = {"title": "A course 00", "slug": "a-course-00"}
    kernel["code_file"] = "notebooks/solutions/00_start_here.ipynb"
    course = tmp_path / "course"
    (course / "notebooks" / "solutions").mkdir(parents=True)
    (course / kernel["code_file"]).write_bytes(LESSON.read_bytes())
    listed = {"repository": "us/course", "defaults": DEFAULTS, "kernels": [kernel]}
    (course / "kaggle-metadata.json").write_text(json.dumps(listed))
    dry = publish(course, "--owner", "me", "--dry-run")
    pushed = course / "build" / "kaggle" / "a-course-00" / LESSON.name
    assert pushed.exists(), dry.stderr

    version = save_version(pushed, tmp_path)
    assert version.code == 0, version.said[-3000:]
    working = tmp_path / "working"
    doctor = json.loads((working / "doctor.json").read_text())
    assert doctor["kaggle"] == "Batch"
    assert not (HAS_ROOM and doctor["online"])
    run = read(working / "00_run.json")
    assert run["whole"] and run["machine"]["kaggle"]
    assert run["code"] == what_runs(Lesson.at(LESSON).cells)
    lesson = nbformat.read(pushed, as_version=4)
    code = [cell.source for cell in lesson.cells if cell.cell_type == "code"]
    marks = [mark(source) for source in code[1:]]
    # Beside them papermill has injected the small parameters.
    assert [cell["mark"] for cell in run["cells"] if cell["mark"] in marks] == marks
    assert numbers(run, "00").keys() == {"latency_ms", "bandwidth"}
    if HAS_ROOM:
        answer = {"files": {path.name: path.read_text() for path in working.glob("*.json")}}
        answer["states"] = ["QUEUED", "RUNNING", "COMPLETE"]
        said = beside_kaggle(course, "--owner", "me", answers={"00": answer}).communicate()[0]
        assert "solutions/00_start_here: ran to the end in" in said
        assert "1 of 1 notebooks ran to the end" in said


# ---- what learners do, and what machines lack


@thorough
def test_all_again_in_the_same_session_and_in_a_new_one(tmp_path: Path):
    version = save_version(notebook(tmp_path / "a.ipynb", *HELLO, *HELLO), tmp_path)
    assert version.code == 0, version.said
    # Among the files of the last one.
    version = save_version(notebook(tmp_path / "b.ipynb", *HELLO), tmp_path)
    assert version.code == 0, version.said


@thorough
def test_cells_out_of_order_are_told_apart(tmp_path: Path):
    *before, launch, read = HELLO
    version = save_version(notebook(tmp_path / "a.ipynb", *before, read, launch), tmp_path)
    assert version.code == 1
    told = "hello was not launched: run the cell that launches it, then this one."
    assert told in version.said


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
    """Both ranks are gone in seconds, the broken launch is no result, and the next is whole."""
    cells = tmp_path / "cells"
    working = tmp_path / "working"
    parts = {
        "a": HELLO[:-2],
        "b": [HANG, "!torchrun --standalone --nproc-per-node=2 hang.py"],
        "c": ['result("hang")', *HELLO[-2:]],
    }
    for folder in (cells, working):
        folder.mkdir()
    for part, sources in parts.items():
        for number, source in enumerate(sources):
            (cells / f"{part}{number:02}").write_text(source)
    command = [PYTHON, PROGRAMS / "interrupted.py", cells]
    done = subprocess.run(
        command, cwd=working, env=environment(), capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert outcome["seconds"] < 30
    assert not outcome["left"]
    assert outcome["replies"][0].startswith("error hang.py was interrupted")
    assert outcome["replies"][1:] == ["ok", "ok"]


@thorough
def test_without_data_and_internet_pictures_are_made(tmp_path: Path):
    version = save_version(notebook(tmp_path / "a.ipynb", *PICTURES), tmp_path)
    assert version.code == 0, version.said
    if HAS_ROOM:
        told = "no internet: making pictures of the same shape"
        assert told in version.printed("!torchrun")


@thorough
@needs_room
@pytest.mark.parametrize("damage", ["none", "half a file"])
def test_attached_data(attached: list[str | Path], tmp_path: Path, damage: str):
    """In Kaggle's present layout; test_common_data.py knows the older one, and every file."""
    data = tmp_path / "data"
    subprocess.run(["cp", "-r", attached[1], data], check=True)
    bad = data / "cifar-10-batches-py" / "data_batch_3"
    if damage == "half a file":
        os.truncate(bad, 1000)
    room = ["--data", data, *attached[2:]]
    version = save_version(notebook(tmp_path / "a.ipynb", *PICTURES), tmp_path, *room)
    said = version.printed("!torchrun")
    at = "/kaggle/input/datasets/pankrzysiu/cifar10-python"
    if damage == "none":
        assert version.code == 0, version.said
        told = f"CIFAR-10: 10000 pictures to train on, 2000 to test on, from {at}\n"
        assert told in said.replace("\r", "")
        return
    assert version.code == 1
    assert "cifar10.py failed (exit code 1)" in version.said
    remedy = "detach the dataset and attach it again"
    assert f"{at}/cifar-10-batches-py/data_batch_3 is missing or damaged: {remedy}" in said
    made = tmp_path / "working" / "data" / "generated.pt"
    assert not made.exists(), "never other pictures instead"


FILL = """with open("everything", "wb", buffering=0) as file:
    try:
        while file.write(bytes(4096)):
            pass
    except OSError:
        print("full")"""


@thorough
@needs_room
@pytest.mark.parametrize(
    ("disk", "cells", "program", "because"),
    [
        ("ro", HELLO, "", "launch.py: Read-only file system"),
        ("8k", HELLO, "", "No space left on device"),
        ("2m", [*WAVES[:-2], FILL, *WAVES[-2:]], "waves.py", "No space left on device"),
        ("20m", PICTURES, "cifar10.py", "pictures need 400: delete files"),
    ],
    ids=["read-only", "full at the first file", "full at the results", "full at the pictures"],
)
def test_a_disk_that_takes_nothing_more(
    tmp_path: Path, disk: str, cells: list[str], program: str, because: str
):
    """The cell that writes the files stops, or the launch; each says why."""
    path = notebook(tmp_path / "a.ipynb", *cells)
    version = save_version(path, tmp_path, "--disk", disk)
    assert version.code == 1
    assert because in version.printed(cells[-2] if program else cells[0])
    assert not program or f"{program} failed (exit code 1)" in version.said


# ---- torch 2.10: a rank that hangs after all its work

# It frees DDP's model while gloo's threads still hold tensors, and gives up after 20 s.
ENDING = """
import faulthandler
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from devices import here, start


def main():
    faulthandler.dump_traceback_later(20, exit=True)
    place = here(gpus=0)
    if "cured" in sys.argv:
        start(place)
    else:
        dist.init_process_group(place.backend)
    model = DistributedDataParallel(torch.nn.Linear(2, 2))
    model(torch.ones(1, 2)).sum().backward()
    for _ in range(300):
        dist.all_reduce(torch.ones(8), async_op=True)
    dist.destroy_process_group()


main()
"""


@thorough
@pytest.mark.parametrize("cured", [True, False])
def test_a_rank_ends_after_its_work(cured: bool, tmp_path: Path):
    """What report() keeps lets it end. Without it, on torch 2.10, it hangs: so this can tell."""
    pinned = (ROOT / "tests/kaggle-requirements.txt").read_text()
    assert "torch==2.10." in pinned, "newer: does the uncured rank still hang?"
    (tmp_path / "ending.py").write_text(ENDING)
    launch = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*launch, "ending.py", "cured" if cured else "uncured"],
        cwd=tmp_path,
        env=environment() | {"PYTHONPATH": rooms.python_path(), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode == 0) == cured, done.stderr
    assert ("Timeout (0:00:20)!" in done.stderr) != cured, done.stderr


# ---- every notebook


def name(path: Path) -> str:
    return path.relative_to(ROOT / "notebooks").with_suffix("").as_posix()


@thorough
@pytest.mark.parametrize("committed", COMMITTED, ids=name)
def test_every_notebook_with_quick_parameters_and_cifar10(
    committed: Path, attached: list[str | Path], tmp_path: Path
):
    version = save_version(committed, tmp_path, *attached, limit=900)
    assert version.code == 0, "\n".join(version.said.splitlines()[-20:])
