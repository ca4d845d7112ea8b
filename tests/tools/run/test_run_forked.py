"""Ranks that torchrun forks compute what others compute, and fail as others fail."""

import ast
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest
import torch
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from whole import printed

import shapes
from course import forked as run_forked
from course import rooms
from course.forked import FORKED, PLAIN_PROGRAMS, forked, forks, may_fork

RUN = ["-m", "course.run.notebooks"]
linux = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux has pidfds")
# Set before torch is imported, and harmless: it only silences the profiler.
HARMLESS = "KINETO_LOG_LEVEL"
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

# Tells which process forked this rank's torchrun, and waits if it is asked to.
PARENTS = """import os, sys, time
import psutil
print(f"forked by {psutil.Process(os.getppid()).ppid()}, {os.environ.get('KIND')}\\n", end="")
if sys.argv[1:] == ["wait"]:
    open(f"waits{os.environ['RANK']}", "w").write(str(os.getpid()))
    time.sleep(100)
if sys.argv[1:] == ["kill"]:
    os.kill(os.getppid(), 9)"""


# ---- which launches


@pytest.mark.parametrize(
    ("program", "reading", "lesson", "fork"),
    [
        ("ddp", 'run = result("ddp")', "09_faster", True),
        ("ddp", 'run = result("ddp")', "13_launching", False),
        ("ddp", 'run = result("ddp")', "12_break_it", False),
        ("resume", 'run = result("resume")', "11_resume", False),
        ("ddp", 'said = failure("ddp", expects="x")', "09_faster", False),
        ("ddp", 'said = failure("other", expects="x")', "09_faster", True),
        ("ddp", '# not failure("ddp")\nresult("ddp")', "09_faster", True),
        ("ddp", "What a reader = of it, in words", "09_faster", True),
    ],
)
def test_launches_that_others_could_tell_apart_stay_plain(program, reading, lesson, fork):
    assert may_fork(LAUNCH.format(program) + " --epochs 1", reading, lesson) == fork


def test_only_a_launch_gets_cells_around_it(tmp_path):
    cells = [new_code_cell("%%writefile a.py\n1"), new_code_cell("import a")]
    cells += [new_markdown_cell("!torchrun a.py"), new_code_cell("print('!torchrun a.py')")]
    for _ in range(2):
        cells += [new_code_cell(LAUNCH.format("a")), new_code_cell('result("a")')]
    made = forked(new_notebook(cells=cells), "09_faster", tmp_path).cells
    tags = [cell.metadata.get("tags", []) for cell in made]
    assert tags == [[]] * 6 + [[FORKED], [], [FORKED], []]
    assert [cell for cell in made if not cell.metadata.get("tags")] == cells


def sets_before_torch(code: ast.Module) -> list[str]:
    """The lines by which a program sets variables of the environment before it imports torch."""
    setting = re.compile(r"os\.environ(\[|\.set|\.up| \|=)")
    found = []
    for node in code.body:
        line = ast.unparse(node)
        if isinstance(node, ast.Import | ast.ImportFrom) and "torch" in line:
            return found
        if setting.match(line) and HARMLESS not in line:
            found.append(line)
    return []  # it does not import torch


def test_a_program_that_sets_something_before_torch_is_imported_stays_plain():
    for path in rooms.programs():
        plain = path.stem in PLAIN_PROGRAMS or path.parent.name[:2] in run_forked.PLAIN_LESSONS
        assert plain or not sets_before_torch(ast.parse(path.read_text())), path
    setting = "import os\nos.environ['TORCH_LOGS'] = '+dynamo'\n"
    assert sets_before_torch(ast.parse(f"{setting}import torch"))
    assert not sets_before_torch(ast.parse(f"import torch\n{setting}"))


def test_the_first_launch_is_as_readers_launch_it(tmp_path):
    """So each lesson shows that it starts for them. One that stays plain anyway counts, too."""
    for first in ("ddp", "kill"):
        launches = [new_code_cell(LAUNCH.format(name)) for name in (first, "ddp", "ddp")]
        made = forked(new_notebook(cells=launches), "06_ddp", tmp_path).cells
        assert made[:1] == launches[:1]
        assert [cell in launches for cell in made[1:]] == [False, True, False] * 2
        assert forks(new_notebook(cells=launches), "06_ddp") == 2
        made = forked(new_notebook(cells=launches), "06_ddp", tmp_path, first=True).cells
        assert (made[:1] == launches[:1]) == (first == "kill")  # in tests


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


def ways(folder: Path) -> dict[str, dict[str, str]]:
    """The three ways to launch, each as the variables that ask for it."""
    forked = run_forked.fork(folder) | {"TORCHRUN_FOR": ""}
    served = forked | {"TORCHRUN_FOR": str(os.getpid())}
    return {"plain": run_forked.plain(), "forked": forked, "served": served}


@pytest.mark.parametrize("way", ["plain", "forked", "served"])
def test_a_rank_is_born_so(folder, way):
    done = torchrun(folder, ways(folder)[way], "born.py")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["rank 0 is born", "rank 1 is born"]
    for rank in born(folder):
        assert rank == {
            "forked": way != "plain",
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


@pytest.mark.parametrize("way", ["forked", "served"])
def test_a_forked_rank_that_fails_is_noticed_and_named(folder, way):
    done = torchrun(folder, ways(folder)[way], "born.py", "1")
    assert done.returncode == 1
    assert not (folder / "born.rank1.json").exists()
    report = done.stderr.partition("Root Cause")[2]
    assert "rank      : 1 (local_rank: 1)" in report
    # What @record wrote into the error file.
    assert "ValueError: rank 1 breaks, on purpose" in report


def test_the_same_training_three_ways_bit_for_bit(tmp_path):
    for name in ("ddp", "devices", "loader", "model", "cifar10", "shapes"):
        shutil.copy(rooms.program(name), tmp_path)
    (tmp_path / "trained.py").write_text(TRAINED)
    (tmp_path / "data").mkdir()
    torch.save(shapes.generate(256, 101), tmp_path / "data" / "generated.pt")
    options = ["--epochs", "1", "--train-size", "256", "--test-size", "101"]
    trained = {}
    for way, settings in ways(tmp_path).items():
        done = torchrun(tmp_path, settings, "trained.py", *options)
        assert done.returncode == 0, done.stderr
        weights = [torch.load(tmp_path / f"weights{rank}.pt") for rank in range(2)]
        losses = json.loads((tmp_path / "ddp.json").read_text())["losses"]
        trained[way] = weights, losses
        for rank in range(2):
            (tmp_path / f"weights{rank}.pt").unlink()
    weights, losses = trained["plain"]
    assert len(losses) == 2
    for way in ("forked", "served"):
        assert trained[way][1] == losses
        for rank, forked_rank in zip(weights, trained[way][0], strict=True):
            assert len(rank) > 20
            assert rank.keys() == forked_rank.keys()
            assert all(torch.equal(rank[name], forked_rank[name]) for name in rank)


def gone(*numbers: int, seconds: float = 20) -> bool:
    """Whether these processes end, or have ended."""
    them = [psutil.Process(number) for number in numbers if psutil.pid_exists(number)]
    return not psutil.wait_procs(them, timeout=seconds)[1]


def waiting(
    folder: Path, settings: dict[str, str], text: str = PARENTS
) -> tuple[subprocess.Popen, list[int]]:
    """A launch of which both ranks have begun to wait, and their process ids."""
    (folder / "waits.py").write_text(text)
    program = shutil.which("torchrun", path=settings["PATH"])
    command = [program, "--standalone", "--nproc-per-node=2", "waits.py", "wait"]
    settings = {"OMP_NUM_THREADS": "1"} | settings
    process = subprocess.Popen(command, cwd=folder, env=os.environ | settings)
    places = [folder / f"waits{rank}" for rank in range(2)]
    end = time.monotonic() + 60
    while not all(place.exists() and place.read_text() for place in places):
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    return process, [int(place.read_text()) for place in places]


# Says what it draws, and goes on when something is raised in it.
STUBBORN = """import os, time
import numpy
rank = os.environ["RANK"]
print(f"drawn {numpy.random.rand()}\\n", end="")
try:
    open(f"waits{rank}", "w").write(str(os.getpid()))
    time.sleep(100 if os.environ.get("WAIT") else 0)
except Exception:
    open("swallowed", "w").write(rank)"""


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["plain", "forked", "served"])
def test_a_signal_ends_a_rank_and_raises_nothing_in_it(tmp_path, way):
    settings = ways(tmp_path)[way] | {"WAIT": "yes"}
    launch, ranks = waiting(tmp_path, settings, STUBBORN)
    launch.terminate()
    assert gone(*ranks)
    assert launch.wait(20) != 0
    assert not (tmp_path / "swallowed").exists()


def test_every_rank_of_every_launch_draws_other_numbers(tmp_path):
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    served = ways(tmp_path)["served"]
    said = "".join(torchrun(tmp_path, served, "stubborn.py").stdout for _ in range(2))
    assert len({*re.findall(r"drawn (\S+)", said)}) == 4


# ---- the forkserver


@linux
def test_launches_with_the_same_environment_share_a_forkserver(tmp_path):
    (tmp_path / "parents.py").write_text(PARENTS)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(tmp_path / "parents.py", elsewhere)
    served = ways(tmp_path)["served"]
    first = torchrun(tmp_path, served, "parents.py").stdout
    again = torchrun(elsewhere, ways(elsewhere)["served"], "parents.py").stdout
    other = torchrun(tmp_path, served | {"KIND": "other"}, "parents.py").stdout
    [one] = {*re.findall(r"forked by (\d+), None", first + again)}
    [two] = {*re.findall(r"forked by (\d+), other", other)}
    assert first.count("None") == again.count("None") == other.count("other") == 2
    assert one != two


@linux
@pytest.mark.thorough
def test_nothing_outlives_the_process_for_which_a_forkserver_lives(tmp_path):
    owner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
    served = ways(tmp_path)["served"] | {"TORCHRUN_FOR": str(owner.pid)}
    launch, ranks = waiting(tmp_path, served)
    agent = psutil.Process(ranks[0]).ppid()
    forkserver = psutil.Process(agent).ppid()
    assert "forkserver.py" in " ".join(psutil.Process(forkserver).cmdline())
    owner.kill()
    owner.wait()
    assert gone(*ranks, agent, forkserver)
    assert launch.wait(20) != 0


@linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_launch_that_is_ended_leaves_no_ranks(tmp_path, number):
    launch, ranks = waiting(tmp_path, ways(tmp_path)["served"])
    agent = psutil.Process(ranks[0]).ppid()
    launch.send_signal(number)
    assert gone(*ranks, agent)
    assert launch.wait(20) != 0


@linux
@pytest.mark.thorough
def test_a_launch_whose_torchrun_is_killed_ends_by_that_signal(tmp_path):
    (tmp_path / "parents.py").write_text(PARENTS)
    done = torchrun(tmp_path, ways(tmp_path)["served"], "parents.py", "kill")
    assert done.returncode == -signal.SIGKILL


@linux
@pytest.mark.thorough
def test_a_launch_whose_forkserver_is_killed_says_so(tmp_path, capfd):
    launch, ranks = waiting(tmp_path, ways(tmp_path)["served"])
    agent = psutil.Process(ranks[0]).parent()
    agent.parent().kill()
    assert launch.wait(20) == 1
    assert "torchrun: the forkserver has ended" in capfd.readouterr().err
    assert gone(*ranks, agent.pid)


def test_without_a_process_to_live_for_torchrun_imports_torch_itself(folder):
    nobody = subprocess.Popen([sys.executable, "-c", ""])
    nobody.wait()
    served = ways(folder)["served"] | {"TORCHRUN_FOR": str(nobody.pid)}
    done = torchrun(folder, served, "born.py")
    assert done.returncode == 0, done.stderr
    assert all(rank["forked"] for rank in born(folder))


@linux
def test_another_users_launch_gets_nothing(monkeypatch):
    spec = importlib.util.spec_from_file_location(
        "forkserver", run_forked.TORCHRUN / "forkserver.py"
    )
    forkserver = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(forkserver)
    for user, asked in {os.getuid(): True, os.getuid() + 1: False}.items():
        ours, theirs = socket.socketpair()
        with ours, theirs:
            socket.send_fds(theirs, [b'["/", {}, ["torchrun"]]\n'], [0, 1, 2])
            monkeypatch.setattr(os, "getuid", lambda user=user: user)
            got = forkserver.receive(ours)
            monkeypatch.undo()
        assert (got is not None) == asked
        if got:
            for stream in got.streams:
                os.close(stream)


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
    good = [*before, LAUNCH.format("born"), read, LAUNCH.format("born"), read, again]
    good += [LAUNCH.format("born"), read]
    good += [
        'import sys\n!{sys.executable} -c \'import os; print(os.environ["PYTHONPATH"] == "")\''
    ]
    bad = [*before, LAUNCH.format("born"), LAUNCH.format("born") + " 1", read]
    for name, sources in {"good": good, "bad": bad}.items():
        cells = [new_code_cell(source) for source in sources]
        nbformat.write(new_notebook(cells=cells), folder / f"{name}.ipynb")
    command = [sys.executable, *RUN, folder / "good.ipynb", folder / "bad.ipynb", "--forked"]
    command += ["--executed", folder / "executed"]
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, env=ours, capture_output=True, text=True, timeout=200)
    books = {"said": done.stdout, "code": done.returncode, "folder": folder}
    for name in ("good", "bad"):
        books[name] = nbformat.read(folder / "executed" / f"{name}.ipynb", as_version=4).cells
    return books


def test_a_notebooks_ranks_are_forked_unless_the_lesson_asks_for_threads(ran):
    assert printed(ran["good"][5]).count("'forked': False") == 2  # the first launch
    assert printed(ran["good"][7]).count("'forked': True") == 2
    assert printed(ran["good"][10]).count("'forked': False") == 2  # without OMP_NUM_THREADS
    assert "Setting OMP_NUM_THREADS" in printed(ran["good"][9])
    assert printed(ran["good"][11]).split() == ["True"]  # and what comes after knows nothing of it


def test_the_readers_cells_alone_are_counted_and_shown(ran):
    assert len(ran["good"]) == 12 and len(ran["bad"]) == 7
    assert not any("PET_RUN_PATH" in cell.source for cell in ran["good"])


def test_a_notebook_whose_forked_launch_fails_fails(ran):
    assert ran["code"] == 1
    assert "ValueError: rank 1 breaks, on purpose" in ran["said"]
    assert "born.py failed (exit code 1)" in ran["said"]
    assert "FAILED in cell 7: print(*(result" in ran["said"]


def test_readers_are_not_shown_forked_launches():
    command = [sys.executable, *RUN, "00", "--outputs", "--forked"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "leave out --forked" in done.stderr
