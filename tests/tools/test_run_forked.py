"""Ranks that torchrun forks compute what others compute, and fail as others fail."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import torch
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from whole import printed

import rooms
import run_forked
import shapes
from run_forked import FORKED, PLAIN_PROGRAMS, forked, may_fork

RUN = Path(__file__).resolve().parents[2] / "scripts" / "run.py"
LAUNCH = "!torchrun --standalone --nproc-per-node=2 {}.py"

# Trains as lesson 06 does, and saves all weights of every rank.
TRAINED = """import os
import torch
import ddp
evaluate = ddp.evaluate
def saved(model, *rest):
    torch.save(model.state_dict(), f"weights{os.environ['RANK']}.pt")
    return evaluate(model, *rest)
ddp.evaluate = saved
ddp.main()"""

# Tells how this rank came into the world.
BORN = """import json, multiprocessing, os, sys
import torch
from torch.distributed.elastic.multiprocessing.errors import record
import beside
@record
def main():
    rank = os.environ["RANK"]
    if sys.argv[1:] == [rank]:
        raise ValueError(f"rank {rank} breaks, on purpose")
    print(f"rank {rank} is born\\n", end="")
    about = {"forked": multiprocessing.parent_process() is not None, "name": __name__}
    about |= {"beside": beside.__file__, "main": sys.argv[0], "threads": torch.get_num_threads()}
    ending = "json" if rank == "0" else f"rank{rank}.json"
    open(f"born.{ending}", "w").write(json.dumps(about))
if __name__ == "__main__":
    main()"""

# Tells how many ranks torchrun has forked, before it does anything else.
PROMPT = """import os
from pathlib import Path
torchrun = os.getppid()
ranks = Path(f"/proc/{torchrun}/task/{torchrun}/children").read_text().split()
print(f"{len(ranks)} ranks are there\\n", end="")"""


# ---- which launches


@pytest.mark.parametrize(
    ("program", "reading", "lesson", "fork"),
    [
        ("ddp", 'run = result("ddp")', "09_faster", True),
        ("ddp", 'run = result("ddp")', "06_ddp", False),
        ("ddp", 'run = result("ddp")', "12_break_it", False),
        ("resume", 'run = result("resume")', "11_resume", False),
        ("ddp", 'said = failure("ddp", expects="x")', "09_faster", False),
        ("ddp", 'said = failure("other", expects="x")', "09_faster", True),
    ],
)
def test_launches_that_others_could_tell_apart_stay_plain(program, reading, lesson, fork):
    assert may_fork(LAUNCH.format(program) + " --epochs 1", reading, lesson) == fork


def test_only_a_launch_gets_cells_around_it(tmp_path):
    cells = [new_code_cell("%%writefile a.py\n1"), new_code_cell("import a")]
    cells += [new_markdown_cell("!torchrun a.py"), new_code_cell("print('!torchrun a.py')")]
    cells += [new_code_cell(LAUNCH.format("a")), new_code_cell('result("a")')]
    made = forked(new_notebook(cells=cells), "09_faster", tmp_path).cells
    tags = [cell.metadata.get("tags", []) for cell in made]
    assert tags == [[], [], [], [], [FORKED], [], [FORKED], []]
    assert [cell for cell in made if not cell.metadata.get("tags")] == cells


def test_the_exceptions_are_programs_that_there_are():
    assert PLAIN_PROGRAMS.keys() <= {path.stem for path in rooms.programs()}


# ---- ranks


def torchrun(folder: Path, settings: dict[str, str], *command: str) -> subprocess.CompletedProcess:
    for old in folder.glob("*.json"):
        old.unlink()
    program = shutil.which("torchrun", path=settings["PATH"])
    return subprocess.run(
        [program, "--standalone", "--nproc-per-node=2", *command],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | settings,
        capture_output=True,
        text=True,
        timeout=120,
    )


def born(folder: Path) -> list[dict]:
    return [json.loads((folder / f"born.{end}").read_text()) for end in ("json", "rank1.json")]


@pytest.fixture
def folder(tmp_path):
    """A notebook's folder, with a program and what it imports."""
    (tmp_path / "born.py").write_text(BORN)
    (tmp_path / "beside.py").write_text("")
    return tmp_path


@pytest.mark.parametrize("way", ["fork", "plain"])
def test_a_rank_is_born_so(folder, way):
    settings = getattr(run_forked, way)
    done = torchrun(folder, settings(folder) if way == "fork" else settings(), "born.py")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["rank 0 is born", "rank 1 is born"]
    for rank in born(folder):
        assert rank == {
            "forked": way == "fork",
            "name": "__main__",
            "beside": str(folder / "beside.py"),
            "main": "born.py",
            "threads": 1,
        }


def test_a_launch_that_stays_plain_is_plain_after_a_forked_one(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "environ", {"OMP_NUM_THREADS": "1"})
    launches = [LAUNCH.format("average"), LAUNCH.format("kill")]
    cells = run_forked.around(launches, "11_resume", tmp_path)
    scope = {}
    methods = []
    places = []
    for cell in cells:
        if cell.startswith("!"):
            methods.append(os.environ.get("PET_START_METHOD"))
            places.append(Path(shutil.which("torchrun", path=os.environ["PATH"])).parent)
        else:
            exec(cell, scope)
    assert methods == ["fork", "spawn"]
    assert places == [run_forked.TORCHRUN, Path(sys.executable).parent]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux has /proc")
def test_no_rank_begins_before_the_last_one_is_forked(tmp_path):
    (tmp_path / "prompt.py").write_text(PROMPT)
    done = torchrun(tmp_path, run_forked.fork(tmp_path), "--nproc-per-node=8", "prompt.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["8 ranks are there"] * 8


def test_a_forked_rank_that_fails_is_noticed_and_named(folder):
    done = torchrun(folder, run_forked.fork(folder), "born.py", "1")
    assert done.returncode == 1
    assert not (folder / "born.rank1.json").exists()
    report = done.stderr.partition("Root Cause")[2]
    assert "rank      : 1 (local_rank: 1)" in report
    # What @record wrote into the error file.
    assert "ValueError: rank 1 breaks, on purpose" in report


def test_the_same_training_plain_and_forked_bit_for_bit(tmp_path):
    for name in ("ddp", "devices", "loader", "model", "cifar10", "shapes"):
        shutil.copy(rooms.program(name), tmp_path)
    (tmp_path / "trained.py").write_text(TRAINED)
    (tmp_path / "data").mkdir()
    torch.save(shapes.generate(256, 101), tmp_path / "data" / "generated.pt")
    options = ["--epochs", "1", "--train-size", "256", "--test-size", "101"]
    trained = {}
    for way, settings in {"plain": run_forked.plain(), "forked": run_forked.fork(tmp_path)}.items():
        done = torchrun(tmp_path, settings, "trained.py", *options)
        assert done.returncode == 0, done.stderr
        weights = [torch.load(tmp_path / f"weights{rank}.pt") for rank in range(2)]
        losses = json.loads((tmp_path / "ddp.json").read_text())["losses"]
        trained[way] = weights, losses
        for rank in range(2):
            (tmp_path / f"weights{rank}.pt").unlink()
    weights, losses = trained["plain"]
    assert trained["forked"][1] == losses and len(losses) == 2
    for rank, forked_rank in zip(weights, trained["forked"][0], strict=True):
        assert len(rank) > 20
        assert rank.keys() == forked_rank.keys()
        assert all(torch.equal(rank[name], forked_rank[name]) for name in rank)


# ---- a whole notebook


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> dict[str, object]:
    """run.py --forked on a notebook with three launches, and on one whose launch fails."""
    folder = tmp_path_factory.mktemp("forked")
    launch = rooms.program("launch").read_text()
    before = [f"%%writefile launch.py\n{launch}", "from launch import result"]
    before += ["%%writefile beside.py\n1", f"%%writefile born.py\n{BORN}"]
    read = 'print(*(result("born", rank) for rank in range(2)), sep="\\n")'
    again = "import os\nthreads = os.environ.pop('OMP_NUM_THREADS')"
    good = [*before, LAUNCH.format("born"), read, again, LAUNCH.format("born"), read]
    good += [
        'import sys\n!{sys.executable} -c \'import os; print(os.environ["PYTHONPATH"] == "")\''
    ]
    bad = [*before, LAUNCH.format("born") + " 1", read]
    for name, sources in {"good": good, "bad": bad}.items():
        cells = [new_code_cell(source) for source in sources]
        nbformat.write(new_notebook(cells=cells), folder / f"{name}.ipynb")
    command = [sys.executable, RUN, folder / "good.ipynb", folder / "bad.ipynb", "--forked"]
    command += ["--site", folder / "site", "--executed", folder / "executed"]
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, env=ours, capture_output=True, text=True, timeout=200)
    books = {"said": done.stdout, "code": done.returncode, "folder": folder}
    for name in ("good", "bad"):
        books[name] = nbformat.read(folder / "executed" / f"{name}.ipynb", as_version=4).cells
    return books


def test_a_notebooks_ranks_are_forked_unless_the_lesson_asks_for_threads(ran):
    assert printed(ran["good"][5]).count("'forked': True") == 2
    assert printed(ran["good"][8]).count("'forked': False") == 2  # without OMP_NUM_THREADS
    assert "Setting OMP_NUM_THREADS" in printed(ran["good"][7])
    assert printed(ran["good"][9]).split() == ["True"]  # and what comes after knows nothing of it


def test_the_readers_cells_alone_are_counted_and_shown(ran):
    assert len(ran["good"]) == 10 and len(ran["bad"]) == 6
    assert "PET_RUN_PATH" not in (ran["folder"] / "site" / "good.html").read_text()


def test_a_notebook_whose_forked_launch_fails_fails(ran):
    assert ran["code"] == 1
    assert "ValueError: rank 1 breaks, on purpose" in ran["said"]
    assert "born.py failed (exit code 1)" in ran["said"]
    assert "FAILED in cell 6: print(*(result" in ran["said"]


def test_readers_are_not_shown_forked_launches():
    command = [sys.executable, RUN, "00", "--outputs", "--forked"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "leave out --forked" in done.stderr
