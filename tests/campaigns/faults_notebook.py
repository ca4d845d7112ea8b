"""A notebook that loses its kernel, or `scripts/course/run/notebooks.py` that runs it.

None may be called ok that did not reach its end, and no file of the repository (a copy) may be
damaged.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import nbformat
from faults_processes import Lost, command_line, demand, gone, marked, start, wait
from nbformat.v4 import new_code_cell, new_notebook

from course import rooms

ROOT = Path(__file__).resolve().parents[2]
SLOW = """%%writefile slow.py
import json, os, signal, time
from pathlib import Path

signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as stubborn as a rank that waits in a collective
Path(os.environ["FOLDER"], "begun").touch()
time.sleep(1)
if os.environ["RANK"] == "0":
    results = json.dumps([20, 22]).encode()
    Path("slow.json").write_bytes(os.urandom(10**6) if "RUBBISH" in os.environ else results)"""
CELLS = [
    f"%%writefile launch.py\n{rooms.program('launch').read_text()}",
    SLOW,
    "from launch import result\nimport os\nfrom pathlib import Path\nprint('a word ' * 150_000)",
    "!torchrun --standalone --nproc-per-node=2 slow.py",
    "print('the sum:', sum(result('slow')))\nPath(os.environ['FOLDER'], 'done').touch()",
]
EXECUTED = "build/executed"
REPORT = f"{EXECUTED}/runs.json"
OK = '{"runs": [{"name": "small", "ok": true}]}'  # what the report says of a green notebook


def git(copy: Path, *arguments: str) -> str:
    """What git says in a repository; CalledProcessError if it fails."""
    command = ["git", "-c", "user.name=faults", "-c", "user.email=faults@localhost", *arguments]
    return subprocess.run(command, cwd=copy, capture_output=True, text=True, check=True).stdout


def repository(folder: Path) -> Path:
    """A copy of the tools with one small notebook, all committed.

    And the report of an earlier run, where it was ok.
    """
    copy = folder / "copy"
    uncopied = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "scripts", copy / "scripts", ignore=uncopied)
    shutil.copy(ROOT / ".gitignore", copy)
    (copy / "notebooks").mkdir()
    (copy / EXECUTED).mkdir(parents=True)
    (copy / REPORT).write_text(OK)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [new_code_cell(cell) for cell in CELLS]
    book = new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(book, copy / "notebooks" / "small.ipynb")
    git(copy, "init", "-q")
    git(copy, "add", ".")
    git(copy, "commit", "-qm", "all")
    return copy


def judge(copy: Path, code: int | None, said: str, done: bool, outputs: bool = False) -> None:
    """Lost unless what the tool says of the notebook is true, and no file is damaged.

    It ended with an exit code, and said something; `done`: the notebook reached its end. With
    `outputs` the notebook may have changed.
    """
    report = copy / REPORT
    runs = json.loads(report.read_text())["runs"] if report.exists() else []
    claims = {
        "the exit code": code == 0,
        "the table": re.search(r"^small(?: +\d+ |:) +ok\b", said, re.MULTILINE),
        "the report": any(run["ok"] for run in runs),
    }
    for claim, made in claims.items():
        demand(done or not made, f"{claim} says ok of a notebook that did not reach its end")
    changed = git(copy, "status", "--porcelain").splitlines()
    ours = {" M notebooks/small.ipynb"} if outputs else set()
    demand(set(changed) <= ours, f"files of the repository have changed: {changed}")
    path = copy / "notebooks" / "small.ipynb"
    try:
        cells = nbformat.read(path, as_version=4).cells
    except Exception as error:
        raise Lost(f"{path.name} is damaged: {type(error).__name__}") from error
    demand([cell.source for cell in cells] == CELLS, f"{path.name} has lost cells")
    brought = not changed or "the sum: 42" in str(cells[-1].outputs)
    demand(brought, f"{path.name} has lost its outputs")


class Victim:
    """run.py in a copy of the repository, or the kernel of its notebook, to be hit once."""

    def __init__(self, target: str, folder: Path, mark: str):
        self.kernel = target == "kernel"
        self.outputs = "--outputs" in target
        self.folder = folder
        self.mark = mark
        self.copy = repository(folder)  # makes the folder, too
        self.path = self.copy / "notebooks" / "small.ipynb"
        self.old = self.path.stat().st_mtime_ns
        self.process: subprocess.Popen | None = None  # the tool
        self.to_hit = 0  # process id of the tool or of the kernel

    def begin(self) -> None:
        """Start the tool."""
        command = [sys.executable, "-m", "course.run.notebooks", "small"]
        command += ["--executed", self.copy / EXECUTED]
        if self.outputs:
            command.append("--outputs")
        self.process = start(command, self.folder, self.mark, PYTHONPATH=self.copy / "scripts")

    def over(self) -> bool:
        """Whether the tool has ended."""
        return self.process.poll() is not None

    def said(self) -> str:
        """What the tool has said so far."""
        return (self.folder / "said").read_text()

    def kernels(self) -> list[int]:
        """The process of the notebook's kernel, if it lives."""
        return [process for process in marked(self.mark) if "ipykernel" in command_line(process)]

    def ranks(self) -> list[int]:
        """The processes of ranks that live."""
        return [process for process, env in marked(self.mark).items() if "RANK" in env]

    def begun(self) -> bool:
        """Whether a rank has begun."""
        return (self.folder / "begun").exists()

    def table(self) -> bool:
        """Whether it says how the notebook ended."""
        return "seconds  result" in self.said()

    def writes(self) -> bool:
        """Whether the outputs are being brought back, or have been."""
        changed = self.path.stat().st_mtime_ns != self.old
        return changed or bool(list(self.path.parent.glob("*.part")))

    def approach(self, chance: random.Random) -> bool:
        """Start the tool and wait for a moment to hit; whether there is still something to hit."""
        moments = {  # what to wait for, and how many seconds more at most
            "it begins": (lambda: True, 3),
            "the kernel lives": (self.kernels, 4),
            "the ranks live": (self.begun, 1.5),
            "the table is printed": (self.table, 1),
            "outputs are written": (self.writes, 0),
        }
        possible = list(moments)
        if self.kernel:
            possible = ["the kernel lives", "the ranks live"]
        elif not self.outputs:
            possible.remove("outputs are written")
        moment = chance.choice(possible)
        condition, more = moments[moment]
        if moment == "it begins":
            # It may not have got as far as to take the report of the earlier run away.
            (self.copy / REPORT).unlink()
        self.begin()
        wait(lambda: self.over() or condition(), 60, 0.03 if more else 0.0002)
        wait(self.over, chance.uniform(0, more))
        self.to_hit = self.process.pid
        if self.kernel:
            self.to_hit = next(iter(self.kernels()), 0)
        return not self.over() and self.to_hit > 0

    def strike(self, number: int, chance: random.Random) -> None:
        """Send the signal; Lost unless what it was sent to ends, and all that this has started."""
        ranks = self.ranks()
        send = os.kill
        if not self.kernel:
            send = chance.choice([os.kill, os.killpg])  # Ctrl-C goes to the whole group
        with suppress(ProcessLookupError):  # it has just ended
            send(self.to_hit, number)
        if self.kernel:
            gone(self.mark, ranks if number != signal.SIGINT else [])
            demand(wait(self.over, 60), "run.py does not end")
        gone(self.mark)

    def inspect(self) -> None:
        """Lost unless what the tool says is true, and nothing is damaged or left behind."""
        done = (self.folder / "done").exists()
        judge(self.copy, self.process.wait(), self.said(), done, self.outputs)
        left = list((self.folder / "tmp").iterdir())
        demand(not left, "a temporary folder is left")


def interrupt(kind: str, chance: random.Random, folder: Path, mark: str) -> bool:
    """Hit the tool, or the kernel of its notebook, at some moment; False where it ended before."""
    target, name = kind.rsplit(" ", 1)
    victim = Victim(target, folder, mark)
    if not victim.approach(chance):
        gone(mark)
        return False
    victim.strike(signal.Signals[name], chance)
    victim.inspect()
    return True
