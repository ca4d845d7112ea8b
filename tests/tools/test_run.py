"""scripts/run.py on real notebooks, with real torchrun ranks and real kills.

The longest wait is a cell's limit. The other runs happen during it, so the order of the tests matters only for speed.
"""

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

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "scripts" / "run.py"
from run import NOTEBOOKS, Run, choose, index

LIMIT = 30
BADGE = "[![Open in X](https://example.com/badge.svg)](https://example.com/open?src=here)"
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
SLOW = ["import time\ntime.sleep(1.5)", "time.sleep(1.5)"]
BAD = """for line in range(30):
    print("line", line, "of", N)
raise ValueError("the cause")"""


def notebook(path: Path, *cells: str, quick: dict | None = None) -> Path:
    """A notebook of a title, a parameters cell and these code cells; the first one is folded."""
    made = [nbformat.v4.new_markdown_cell(f"# The lesson {path.stem} · 課程\n\n{BADGE} [next](b.ipynb)")]
    made += [nbformat.v4.new_code_cell("N = 0", metadata={"tags": ["parameters"]})]
    made += [nbformat.v4.new_code_cell(cell, metadata={"jupyter": {"source_hidden": True}}) for cell in cells[:1]]
    made += [nbformat.v4.new_code_cell(cell) for cell in cells[1:]]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}, "course": {"quick": quick or {}}}
    nbformat.write(nbformat.v4.new_notebook(cells=made, metadata=metadata), path)
    return path


def wait_for(condition, what: str, seconds: float = 90):
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.05)
    return value


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


class Started:
    """One run.py at work, with a temporary folder of its own, by which everything that it started is known."""

    def __init__(self, folder: Path, *arguments: str | Path, terminal: bool = False):
        self.folder, self.temporary, self.screen, self.ranks = folder, folder / "tmp", b"", []
        self.temporary.mkdir()
        environment = os.environ | {"TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, RUN, *arguments, "--site", folder / "site"]
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
        threading.Thread(target=self.read, args=(ours,)).start()  # a terminal that nobody reads stops its writer

    def read(self, terminal: int) -> None:
        with suppress(OSError):  # the other end is closed
            while True:
                self.screen += os.read(terminal, 4096)
        os.close(terminal)

    @property
    def out(self) -> str:
        return (self.folder / "out").read_bytes().decode()  # as it is: reading text would hide a "\r"

    def page(self, name: str) -> str:
        return (self.folder / "site" / f"{name}.html").read_text()

    def everything(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                ours = process.environ().get("TMPDIR", "").startswith(str(self.temporary))
                found += [process] if ours and process.status() != psutil.STATUS_ZOMBIE else []
        return found

    def stuck(self) -> list[psutil.Process]:
        """Both ranks, once each has told its process id and gone into its endless wait."""
        assert self.process.poll() is None, self.out
        told = [path.read_text() for path in sorted(self.folder.glob("rank[01]"))]
        return [psutil.Process(int(text)) for text in told] if len(told) == 2 and all(told) else []

    def gone(self) -> bool:
        return self.process.poll() is not None and not self.everything() and not list(self.temporary.iterdir())


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Starts run.py in a folder; at the end kills what a failed test has left."""
    started = []

    def begin(folder: Path, *arguments: str | Path, terminal: bool = False) -> Started:
        started.append(Started(folder, *arguments, terminal=terminal))
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
    """A launch that runs into its cell's limit, beside a notebook that fails, both with quick parameters."""
    folder = tmp_path_factory.mktemp("limited")
    hang = notebook(folder / "hang.ipynb", HANG.replace("FOLDER", str(folder)), LAUNCH)
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
    """Three more such launches, each to be killed in its own way; the first writes to a terminal."""
    runs = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        folder = tmp_path_factory.mktemp(number.name)
        hang = notebook(folder / "hang.ipynb", HANG.replace("FOLDER", str(folder)), LAUNCH)
        runs[number] = start(folder, hang, terminal=number == signal.SIGINT)
    for run in runs.values():
        run.ranks = wait_for(run.stuck, "the ranks hang")
    return runs


@pytest.mark.parametrize(("number", "send", "code"), [(signal.SIGINT, os.killpg, 130), (signal.SIGTERM, os.kill, 143)])
def test_a_signal_ends_every_rank_within_5_seconds(limited, killed, bystander, number, send, code):
    run = killed[number]
    send(run.process.pid, number)

    def gone() -> bool:
        run.process.send_signal(number)  # again and again, as from someone impatient
        return run.gone()

    wait_for(gone, "the end of run.py, of all it started and of its folder", 5)
    assert run.process.returncode == code
    assert "interrupted" in run.out + run.screen.decode()
    assert "Traceback" not in run.out + run.screen.decode()
    assert bystander.poll() is None
    assert len(living(killed[signal.SIGKILL].ranks)) == 2  # nor is another run.py's launch touched


def test_a_killed_run_is_cleared_up_by_its_guardian(killed, bystander):
    run = killed[signal.SIGKILL]
    os.killpg(run.process.pid, signal.SIGKILL)
    wait_for(run.gone, "the end of all that run.py started and of its folder", 10)
    assert bystander.poll() is None


def test_a_terminal_shows_progress_and_a_file_gets_few_lines(killed, limited):
    assert re.search(r"\rhang +cell 4/4 \d\d:\d\d", killed[signal.SIGINT].screen.decode())
    assert "\r" not in limited.out
    for name in ("hang", "bad"):
        at = [int(seconds) for seconds in re.findall(rf"^{name}: cell \d/\d, (\d+) s$", limited.out, re.MULTILINE)]
        assert all(later - earlier >= 4 for earlier, later in zip([0, *at], at, strict=False)), limited.out


@pytest.fixture(scope="module")
def together(start, tmp_path_factory):
    """Two notebooks that answer each other, and tell how their kernels are reached."""
    folder = tmp_path_factory.mktemp("together")
    alone = ALONE.replace("FOLDER", str(folder))
    reached = "import ipykernel\nprint(ipykernel.get_connection_info(unpack=True)['transport'])"
    place = (
        "import os, time\nprint(os.getcwd()[:5], end='', flush=True)\ntime.sleep(0.5)\nprint(os.getcwd()[5:] + '/x.py')"
    )
    pair = [
        notebook(folder / f"{me}.ipynb", alone.replace("ME", me).replace("PEER", peer), place, reached)
        for me, peer in ("ab", "ba")
    ]
    run = start(folder, *pair, "--outputs", "--jobs", "2")
    run.process.wait(120)
    return run


def test_notebooks_run_side_by_side_each_in_its_own_folder(together):
    assert together.process.returncode == 0, together.out
    assert re.search(r"^a +\d+  ok\nb +\d+  ok$", together.out, re.MULTILINE)
    assert "['a.json'] 0" in together.page("a")
    assert "['b.json'] 0" in together.page("b")
    assert "<pre>ipc\n</pre>" in together.page("a")  # two kernels that choose the same TCP port never answer


def test_the_pages_list_and_show_every_notebook_without_a_network(together):
    assert f"Open {together.folder / 'site' / 'index.html'}" in together.out
    assert re.search(
        r'<a href="a.html">The lesson a · 課程</a><br><small>a</small></td><td>\d+ s</td><td class="ok">ok<',
        together.page("index"),
    )
    page = together.page("a")
    assert "<summary>import json, time</summary>" in page
    assert 'href="b.html"' in page
    assert re.search('href="https://example.com/open[^>]*>Open in X</a>', page)  # a badge, without its picture
    for text in (page, together.page("index")):
        assert not re.search(r"<(script|link|iframe)|src=\"(https?:)?//|url\((?!['\"]?data:)|@import", text)
        assert "default-src 'none'" in text  # the browser refuses what an output may still name
        assert 'name="viewport"' in text


def test_a_table_of_errors_links_the_lesson():
    table = "| error | section | remedy |\n| --- | --- | --- |\n| `a [0]` | One at a time | mend it · 修好 |"
    data = [{"output_type": "stream", "text": "x"}, {"data": {"text/markdown": [table]}}]
    prose = {"cell_type": "markdown", "metadata": {}, "source": ["## One at a time · 一"]}
    code = {"cell_type": "code", "metadata": {"tags": ["index"]}, "source": [], "outputs": data}
    linked = "| `a [0]` | [One at a time](12_x.ipynb) | mend it · 修好 |"
    assert index([prose, code], "12_x").splitlines()[2:] == [linked]
    assert index([prose], "12_x") == ""


def test_outputs_are_brought_back_with_their_machine(together):
    committed = nbformat.read(together.folder / "a.ipynb", as_version=4)
    assert committed.cells[2].outputs[0].text == "['a.json'] 0\n"
    assert committed.cells[3].outputs[0].text == "x.py\n"  # a folder of the machine, printed in two pieces
    assert {"torch": "1.2.3", "device": "a test"}.items() <= committed.metadata.course.outputs.items()
    assert "loss" not in committed.metadata.course.outputs


def test_a_limit_ends_every_rank_within_5_seconds(limited, bystander):
    limited.process.wait(90)
    assert limited.hung_for < LIMIT + 5
    wait_for(limited.gone, "the end of all that run.py started and of its folder", 1)
    assert bystander.poll() is None
    assert limited.process.returncode == 1
    assert re.search(rf"^hang +\d+  FAILED in cell 4: {LAUNCH}\n +no end within {LIMIT} s\n", limited.out, re.MULTILINE)
    assert limited.out.count("this rank is ready") == 2


def test_a_failing_cell_is_named_with_its_last_lines(limited):
    assert limited.process.wait(90) == 1
    table = limited.out[limited.out.index("lesson ") :]
    assert "FAILED in cell 6: for line in range(30):" in table  # papermill's own cells are not counted
    assert "ValueError: the cause" in table
    assert 5 < len(re.split(r"^(?:hang|bad) ", table, flags=re.MULTILINE)[2].splitlines()) <= 24
    page = limited.page("bad")
    assert "FAILED in cell 6" in page
    assert "line 29 of 1e-07" in page  # a quick parameter, as a number
    assert "FAILED in cell 6" in limited.page("index")
    assert "FAILED" in limited.page("hang")


def test_after_a_failed_launch_the_ranks_own_message_is_told(tmp_path):
    said = ["rank 0 begins\n", *["a step\n"] * 30, "ValueError: the cause\n", "E1121 03:43:28 failed (exitcode: 1)\n"]
    launch = nbformat.v4.new_code_cell(LAUNCH, outputs=[nbformat.v4.new_output("stream", text="".join(said))])
    error = nbformat.v4.new_output("error", ename="LaunchError", evalue="hang.py failed (exit code 1).", traceback=[])
    cells = [launch, nbformat.v4.new_code_cell('run = result("hang")\nrun', outputs=[error])]
    for cell in cells:
        cell.metadata["papermill"] = {"start_time": "2026-01-01"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "executed.ipynb")
    run = Run(Path("hang.ipynb"), tmp_path, "", LIMIT, 2, {})
    run.diagnose(False, [])
    told = run.problem.splitlines()
    assert told[0] == 'in cell 2: run = result("hang")'
    assert told[-3:] == ["a step", "ValueError: the cause", "hang.py failed (exit code 1)."]
    assert len(told) == 21


def test_choosing_lessons():
    lessons, solutions = sorted(NOTEBOOKS.glob("*.ipynb")), sorted(NOTEBOOKS.glob("solutions/*.ipynb"))
    assert list(choose([])) == list(choose([""])) == lessons
    assert list(choose(["solutions/"])) == solutions
    assert list(choose(["", "solutions/"])) == lessons + solutions
    number, path = lessons[0].name[:2], lessons[0]
    assert list(choose([number])) == list(choose([str(path)])) == list(choose([number, str(path)])) == [path]
    assert list(choose([f"solutions/{number}"])) == [path.parent / "solutions" / path.name]


def test_unusable_input_is_told_in_one_line(tmp_path):
    (tmp_path / "text.ipynb").write_text("not a notebook")
    good = notebook(tmp_path / "good.ipynb")
    without = "import runpy, sys; sys.modules['jupytext'] = None"  # how Python marks a module that cannot be imported
    without += f"; sys.path[0] = {str(RUN.parent)!r}; runpy.run_path({str(RUN)!r}, run_name='__main__')"
    site = ["--site", tmp_path / "site"]
    cases = [
        ([RUN, "99", *site], "no lesson begins with “99”", "03_"),
        ([RUN, tmp_path / "text.ipynb", *site], "text.ipynb", "make build"),
        ([RUN, good, "--site", good], "good.ipynb", "--site"),
        (["-c", without, good, "--outputs", *site], "jupytext", "make outputs"),
    ]
    begun = [subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE, text=True) for command, *_ in cases]
    for process, (_, *expected) in zip(begun, cases, strict=True):
        _, said = process.communicate(timeout=60)
        assert process.returncode == 1
        assert len(said.splitlines()) == 1, said
        for text in expected:
            assert text in said
