"""scripts/course/run/notebooks.py on real notebooks, with real torchrun ranks and real kills.

The longest wait is a cell's limit. The other runs happen during it, so the order of the tests
matters only for speed.
"""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
import time
from contextlib import suppress
from pathlib import Path

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from course import ROOT

RUN = "course.run.notebooks"
SCRIPTS = ROOT / "scripts"
LIMIT = 30
# Rank 1 waits for ever in a collective that rank 0 never joins, and neither heeds SIGTERM.
HANG = """%%writefile hang.py
import os, signal, time
from pathlib import Path
import torch
import torch.distributed as dist
signal.signal(signal.SIGTERM, signal.SIG_IGN)
dist.init_process_group("gloo")
print("this rank is ready", flush=True)
Path("FOLDER", f"rank{dist.get_rank()}").write_text(str(os.getpid()))
if dist.get_rank() == 0:
    time.sleep(3600)
dist.all_reduce(torch.ones(1))"""
LAUNCH = "!torchrun --standalone --nproc-per-node=2 hang.py"
ALONE = """import json, time
from pathlib import Path
assert not list(Path().iterdir()), "a notebook begins in an empty folder"
Path("ME.json").write_text(json.dumps({"torch": "1.2.3", "device": "a test", "loss": 0}))
Path("FOLDER", "ME").touch()
end = time.monotonic() + 90
while not Path("FOLDER", "PEER").exists():  # only a notebook that runs at the same time can answer
    assert time.monotonic() < end, "PEER did not come"
    time.sleep(0.05)
print([path.name for path in Path().iterdir()], N)"""
# A path in two pieces of a stream.
PLACE = """import os, time
print(os.getcwd()[:5], end='', flush=True)
time.sleep(0.5)
print(os.getcwd()[5:] + '/x.py')"""
REACHED = "import ipykernel\nprint(ipykernel.get_connection_info(unpack=True)['transport'])"
SLOW = ["import time\ntime.sleep(1.5)", "time.sleep(1.5)"]
BAD = """for line in range(30):
    print("line", line, "of", N)
raise ValueError("the cause")"""


def notebook(path: Path, *cells: str, quick: dict | None = None) -> Path:
    """A notebook of a title, a parameters cell and these code cells."""
    made = [new_markdown_cell(f"# The lesson {path.stem} · 課程")]
    made.append(new_code_cell("N = 0", metadata={"tags": ["parameters"]}))
    made += [new_code_cell(cell) for cell in cells]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {
        "kernelspec": kernel,
        "language_info": {"name": "python"},
        "course": {"quick": quick or {}},
    }
    nbformat.write(new_notebook(cells=made, metadata=metadata), path)
    return path


def hanging(folder: Path) -> Path:
    """A notebook whose launch hangs, and tells the ranks' process ids in `folder`."""
    return notebook(folder / "hang.ipynb", HANG.replace("FOLDER", str(folder)), LAUNCH)


def wait_for(condition, what: str, seconds: float = 90):
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.05)


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


class Started:
    """One tool at work, with a temporary folder of its own: so we know everything it started."""

    def __init__(
        self,
        folder: Path,
        *arguments: str | Path,
        terminal: bool = False,
        tool: str = RUN,
        scripts: Path = SCRIPTS,
    ):
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        self.screen = b""
        self.ranks = []
        self.began = time.monotonic()
        environment = os.environ | {"TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = str(scripts)
        command = [sys.executable, "-m", tool, *arguments]
        if tool == RUN:
            command += ["--executed", folder / "executed"]
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, 80))
        with (folder / "out").open("w") as out:
            self.process = subprocess.Popen(
                command,
                stdout=out,
                stderr=theirs if terminal else out,
                env=environment,
                cwd=folder,
                start_new_session=True,  # a group to signal, as Ctrl-C does
            )
        os.close(theirs)
        # A terminal that nobody reads stops its writer.
        threading.Thread(target=self.read, args=(ours,)).start()

    def read(self, terminal: int) -> None:
        with suppress(OSError):  # the other end is closed
            while True:
                self.screen += os.read(terminal, 4096)
        os.close(terminal)

    @property
    def out(self) -> str:
        return (self.folder / "out").read_bytes().decode()  # reading text would hide a "\r"

    def executed(self, name: str) -> list[nbformat.NotebookNode]:
        """The cells of a notebook as it ran."""
        return nbformat.read(self.folder / "executed" / f"{name}.ipynb", as_version=4).cells

    def everything(self) -> list[psutil.Process]:
        ours = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                folder = process.environ().get("TMPDIR", "")
                alive = process.status() != psutil.STATUS_ZOMBIE
                if folder.startswith(str(self.temporary)) and alive:
                    ours.append(process)
        return ours

    def stuck(self) -> list[psutil.Process]:
        """Both ranks, once each has told its process id and gone into its endless wait."""
        assert self.process.poll() is None, self.out
        told = [path.read_text() for path in sorted(self.folder.glob("rank[01]"))]
        return [psutil.Process(int(text)) for text in told] if len(told) == 2 and all(told) else []

    def seconds(self) -> float:
        return time.monotonic() - self.began

    def gone(self) -> bool:
        ended = self.process.poll() is not None
        return ended and not self.everything() and not list(self.temporary.iterdir())


@pytest.fixture(scope="module")
def start():
    """Starts the tool in a folder; at the end kills what a failed test has left."""
    started = []

    def begin(folder: Path, *arguments: str | Path, **how) -> Started:
        started.append(Started(folder, *arguments, **how))
        return started[-1]

    yield begin
    for run in started:
        for process in run.everything():
            with suppress(psutil.Error):
                process.kill()
        run.process.wait()


@pytest.fixture(scope="module")
def bystander(tmp_path_factory):
    """A stranger who runs a program of the same name."""
    program = tmp_path_factory.mktemp("stranger") / "hang.py"
    program.write_text("import time\ntime.sleep(3600)\n")
    process = subprocess.Popen([sys.executable, program])
    yield process
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def limited(start, tmp_path_factory):
    """A launch that runs into its cell's limit, beside a notebook that fails; both quick."""
    folder = tmp_path_factory.mktemp("limited")
    hang = hanging(folder)
    bad = notebook(folder / "bad.ipynb", "N + 1", *SLOW, BAD, quick={"N": 1e-7})
    run = start(folder, hang, bad, "--quick", "--jobs", "2", "--limit", str(LIMIT))
    run.ranks = wait_for(run.stuck, "the ranks hang")
    hung = time.monotonic()

    def watch() -> None:
        wait_for(lambda: not living(run.ranks), "the end of both ranks")
        run.hung_for = time.monotonic() - hung

    threading.Thread(target=watch).start()
    return run


@pytest.fixture(scope="module")
def killed(start, tmp_path_factory):
    """Three more such launches, each to be killed in its own way; the first has a terminal."""
    runs = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        folder = tmp_path_factory.mktemp(number.name)
        runs[number] = start(folder, hanging(folder), terminal=number == signal.SIGINT)
    for run in runs.values():
        run.ranks = wait_for(run.stuck, "the ranks hang")
    return runs


@pytest.mark.parametrize(
    ("number", "send", "code"),
    [(signal.SIGINT, os.killpg, 130), (signal.SIGTERM, os.kill, 143)],
)
def test_a_signal_ends_every_rank_within_5_seconds(limited, killed, bystander, number, send, code):
    run = killed[number]
    send(run.process.pid, number)

    def gone() -> bool:
        run.process.send_signal(number)  # again and again, as from someone impatient
        return run.gone()

    wait_for(gone, "the end of the tool, of all it started and of its folder", 5)
    assert run.process.returncode == code
    assert "interrupted" in run.out + run.screen.decode()
    assert "Traceback" not in run.out + run.screen.decode()
    assert bystander.poll() is None
    # Nor is another tool's launch touched.
    assert len(living(killed[signal.SIGKILL].ranks)) == 2


def test_a_killed_run_is_cleared_up_by_its_guardian(killed, bystander):
    run = killed[signal.SIGKILL]
    os.killpg(run.process.pid, signal.SIGKILL)
    wait_for(run.gone, "the end of all that the tool started and of its folder", 10)
    assert bystander.poll() is None


def test_a_terminal_shows_one_bar_and_a_file_gets_few_lines(killed, limited):
    bar = r"\r +\d+%\|.{20}\| 0 of 1, less than a minute left; hang 4/4"
    assert re.search(bar, killed[signal.SIGINT].screen.decode())
    assert "\r" not in limited.out
    limited.process.wait(90)
    lines = re.findall(r"^\d of 2, .* left; .*$", limited.out, re.MULTILINE)
    assert 1 <= len(lines) <= 1 + limited.seconds() / 10, limited.out
    assert re.search("^1 of 2, .*; hang 4/4$", limited.out, re.MULTILINE)


def test_what_an_interrupted_run_has_done_is_kept(start, tmp_path):
    done = notebook(tmp_path / "done.ipynb", *["1 + 1"] * 40)
    hang = hanging(tmp_path)
    run = start(tmp_path, hang, done, "--outputs", "--jobs", "1")  # the longer one runs first
    wait_for(run.stuck, "the ranks hang")
    os.kill(run.process.pid, signal.SIGTERM)
    wait_for(run.gone, "the end of course.run.notebooks", 10)
    assert run.process.returncode == 143
    cells = nbformat.read(done, as_version=4).cells
    assert cells[2].outputs[0].data["text/plain"] == "2"
    assert not nbformat.read(tmp_path / "hang.ipynb", as_version=4).cells[2].outputs


@pytest.fixture(scope="module")
def together(start, tmp_path_factory):
    """Two notebooks that answer each other, and tell how their kernels are reached."""
    folder = tmp_path_factory.mktemp("together")
    alone = ALONE.replace("FOLDER", str(folder))
    pair = []
    for me, peer in ("ab", "ba"):
        answer = alone.replace("ME", me).replace("PEER", peer)
        pair.append(notebook(folder / f"{me}.ipynb", answer, PLACE, REACHED))
    run = start(folder, *pair, "--outputs", "--jobs", "2")
    run.process.wait(120)
    return run


def test_notebooks_run_side_by_side_each_in_its_own_folder(together):
    assert together.process.returncode == 0, together.out
    assert re.search(r"^a +\d+  ok\nb +\d+  ok$", together.out, re.MULTILINE)
    for name in ("a", "b"):
        cells = together.executed(name)
        assert cells[2].outputs[0].text == f"['{name}.json'] 0\n"
        assert cells[2].metadata.papermill.duration > 0
        # Two kernels that choose the same TCP port never answer.
        assert cells[4].outputs[0].text == "ipc\n"


def test_outputs_are_brought_back_with_their_machine(together):
    committed = nbformat.read(together.folder / "a.ipynb", as_version=4)
    assert committed.cells[2].outputs[0].text == "['a.json'] 0\n"
    assert committed.cells[3].outputs[0].text == "x.py\n"  # the machine's folder is left out
    outputs = committed.metadata.course.outputs
    assert outputs.torch == "1.2.3"
    assert outputs.device == "a test"
    assert "loss" not in outputs
    assert outputs.processor in Path("/proc/cpuinfo").read_text()
    assert outputs.busy is True  # each notebook computed beside the other


def test_a_limit_ends_every_rank_within_5_seconds(limited, bystander):
    limited.process.wait(90)
    assert limited.hung_for < LIMIT + 5
    wait_for(limited.gone, "the end of all that the tool started and of its folder", 1)
    assert bystander.poll() is None
    assert limited.process.returncode == 1
    told = rf"^hang +\d+  FAILED in cell 4: {LAUNCH}\n +no end within {LIMIT} s\n"
    assert re.search(told, limited.out, re.MULTILINE)
    assert limited.out.count("this rank is ready") == 2


def test_a_kernel_that_dies_is_told_and_the_next_notebook_runs(start, tmp_path):
    die = "print('last words', flush=True)\nimport os\nos.kill(os.getpid(), 9)"
    run = start(
        tmp_path, notebook(tmp_path / "dies.ipynb", die), notebook(tmp_path / "lives.ipynb")
    )
    assert run.process.wait(90) == 1
    assert re.search(r"^dies .*FAILED in cell 3: print\('last words'", run.out, re.MULTILINE)
    assert "the kernel died" in run.out
    assert re.search(r"^lives .* ok$", run.out, re.MULTILINE)
    assert run.gone()


def test_a_failing_cell_is_named_with_its_last_lines(limited):
    assert limited.process.wait(90) == 1
    table = limited.out[limited.out.index("lesson ") :]
    # papermill's own cells are not counted.
    assert "FAILED in cell 6: for line in range(30):" in table
    assert "ValueError: the cause" in table
    bad = re.split(r"^(?:hang|bad) ", table, flags=re.MULTILINE)[2]
    assert 5 < len(bad.splitlines()) <= 24
    # A quick parameter is a number.
    assert "line 29 of 1e-07" in limited.executed("bad")[-1].outputs[0].text
    runs = json.loads((limited.folder / "executed" / "runs.json").read_text())["runs"]
    said = {row["name"]: row["what"] for row in runs}
    assert said["hang"] == f"in cell 4: {LAUNCH}"
    assert said["bad"] == "in cell 6: for line in range(30):"
    assert "ValueError: the cause" in runs[1]["lines"]
