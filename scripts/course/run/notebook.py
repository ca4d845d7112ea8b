"""One notebook on its way through papermill: how far it is, how it ended, and where it failed."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import dropwhile, takewhile
from pathlib import Path

from tqdm import tqdm

from course import ROOT
from course.forked import FORKED, search_path, write_forked
from course.launches import launch_of
from course.lesson import last_run, tags
from course.processes import Work

NOTEBOOKS = ROOT / "notebooks"
EXECUTE = [sys.executable, "-P", "-m", "course.run.execute"]
ALT = Path(__file__).with_name("alt.py")
LAST = 20  # how many lines of what a failing cell printed are told
REPORT = re.compile(r"E\d{4} (?:\S+ \d+ \S+:\d+\] ?)?")  # how a line of torchrun's report begins
NOT_OURS = {"papermill-error-cell-tag", FORKED}  # tags of cells that the lesson does not have
INJECTED = "injected-parameters"  # the tag of a cell that papermill adds
# Seconds that are expected where a notebook does not hold them.
LAUNCHED = 4.0
COMPUTED = 0.2  # a cell that starts nothing


def source(cell: dict) -> str:
    return "".join(cell["source"])


def printed(cell: dict) -> list[str]:
    """The lines that a cell printed, as a terminal would show them, without colours."""
    from nbconvert.filters.ansi import strip_ansi  # it takes a second, and most runs need none

    texts = []
    for output in cell.get("outputs", []):
        text = "".join(output.get("text", [])) or "\n".join(output.get("traceback", []))
        texts.append(text.rstrip("\n") + "\n")
    plain = strip_ansi("".join(texts)).rstrip()
    return [line.rstrip().rpartition("\r")[2] for line in plain.split("\n")] if plain else []


def expected(notebook: dict) -> list[float]:
    """How long each cell of a notebook will take: as its launches did when outputs were kept."""
    kept = iter(last_run(notebook).get("seconds", []))
    seconds = []
    for cell in notebook["cells"]:
        launch = cell["cell_type"] == "code" and launch_of(source(cell))
        seconds.append(next(kept, LAUNCHED) if launch else COMPUTED)
    return seconds


def name_of(path: Path) -> str:
    """What a notebook is called: `06_ddp`, `solutions/06_ddp`, or its stem if it is not ours."""
    if path.is_relative_to(NOTEBOOKS):
        return path.relative_to(NOTEBOOKS).with_suffix("").as_posix()
    return path.stem


@dataclass
class Run:
    """One notebook, run in a new folder of its own."""

    path: Path
    folder: Path  # executed.ipynb, papermill's log, and `home`, empty, where the notebook begins
    work: Work
    part: str  # of the work's processes, those of this notebook
    limit: int  # seconds that one cell may take
    parameters: dict
    cells: list[float] = field(default_factory=list)  # seconds that each is expected to take
    forked: bool = False  # its ranks, from torchrun: see course.forked
    first: bool = False  # also those of its first launch
    timing: str = ""  # how its cells tagged `timing` wait: see execute.py
    busy: bool = False  # somebody else computed, when a cell measured times
    begun: int = 0  # cells
    seconds: float = 0
    problem: str = ""  # one line that tells where it failed, then the last lines printed there
    place: str = ""  # id of the failing cell

    @property
    def name(self) -> str:
        return name_of(self.path)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def done(self) -> float:
        """How many of the expected seconds its ended cells stand for."""
        return sum(self.cells[: max(0, self.begun - 1)])

    def read(self) -> dict:
        """The reader's notebook as far as it has come; no cells while papermill writes it."""
        notebook = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        with suppress(OSError, ValueError):
            notebook = json.loads((self.folder / "executed.ipynb").read_text())
        own = [cell for cell in notebook["cells"] if not NOT_OURS.intersection(tags(cell))]
        return notebook | {"cells": own}

    def begun_cells(self) -> list[dict]:
        """The cells that have begun, as readers count them: without the one papermill injects."""
        own = [cell for cell in self.read()["cells"] if INJECTED not in tags(cell)]
        return [cell for cell in own if cell["metadata"].get("papermill", {}).get("start_time")]

    def __call__(self, stopped: threading.Event) -> None:
        """Run it to its end, its first error or the moment when `stopped` is set."""
        if stopped.is_set():
            return
        self.home.mkdir(parents=True)
        startup = self.folder / "ipython" / "profile_default" / "startup"
        startup.mkdir(parents=True)
        shutil.copy(ALT, startup)
        log = self.folder / "log"
        began = time.monotonic()
        with log.open("w") as file:
            process = subprocess.Popen(
                self.command(),
                cwd=self.home,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )
            if stopped.is_set():  # whoever set it may have looked before this process was there
                self.work.end(self.part)
            for line in process.stdout:
                self.hear(*json.loads(line))
            process.wait()
            self.work.end(self.part)  # what it has left
        self.seconds = time.monotonic() - began
        if process.returncode:
            self.diagnose(log.read_text().splitlines())
        if not stopped.is_set():
            tqdm.write(f"{self.name}: {self.result()}, {self.seconds:.0f} s")

    def command(self) -> list[str | Path]:
        notebook = self.path
        if self.forked:
            target = self.folder / "forked.ipynb"
            notebook = write_forked(self.path, target, self.home, self.first)
        executed = self.folder / "executed.ipynb"
        how = {"parameters": self.parameters, "limit": self.limit, "timing": self.timing}
        return [*EXECUTE, notebook, executed, json.dumps(how)]

    def hear(self, what: str, about: object) -> None:
        """What papermill's process tells: a cell begins, a cell waits, or waited in vain."""
        if what == "begins":
            self.begun = about
        elif what == "busy":
            self.busy = True
        else:
            tqdm.write(f"{self.name}: {about}")

    def environment(self) -> dict[str, str]:
        here = str(self.folder)  # also for what a killed program leaves behind
        ours = {"PATH": search_path(), "TMPDIR": here, "JUPYTER_RUNTIME_DIR": here}
        ours["IPYTHONDIR"] = str(self.folder / "ipython")  # with our startup file, not the user's
        return os.environ | ours | self.work.environment(self.part)

    def result(self) -> str:
        return f"FAILED {self.problem.splitlines()[0]}" if self.problem else "ok"

    def diagnose(self, log: list[str]) -> None:
        """Tell the failing cell and the last lines of what it printed."""
        late = any("CellTimeoutError" in line for line in log)
        full = []
        if shutil.disk_usage(self.folder).free < 2**20:
            remedy = "make room, or name another disk with TMPDIR"
            full = [f"No space left on device for {self.folder}: {remedy}"]
        cells = self.begun_cells()
        raised = []
        for cell in cells:
            raised.append([o for o in cell.get("outputs", []) if o["output_type"] == "error"])
        number = next((n for n, errors in enumerate(raised) if errors), len(cells) - 1)
        if number < 0:
            self.problem = "\n".join(["before its first cell", *log[-LAST:], *full])
            return

        cell = cells[number]
        errors = raised[number]
        lines = printed(cell)
        if errors and errors[0]["ename"] == "LaunchError":
            # The cause was printed by the launch before this cell.
            launches = [c for c in cells[:number] if launch_of(source(c))]
            lines = [*ranks_lines(launches), errors[0]["evalue"]]
        elif any("DeadKernelError" in line for line in log):
            lines.append("the kernel died: if memory is short, close other programs")
        elif not errors and not late:
            lines += log[-1:]
        first = source(cell).split("\n")[0]
        limit = [f"no end within {self.limit:g} s"] if late else []
        self.place = cell.get("id", "")
        head = f"in cell {number + 1}: {first}"
        self.problem = "\n".join([head, *limit, *lines[-LAST:], *full])


def ranks_lines(launches: list[dict]) -> list[str]:
    """What the ranks of the last launch printed, up to torchrun's own report.

    A forked rank's error is in that report, each line behind the place in torch that tells it.
    """
    if not launches:
        return []
    lines = printed(launches[-1])
    own = list(takewhile(lambda line: not REPORT.match(line), lines))
    report = [REPORT.sub("", line) for line in lines if REPORT.match(line)]
    error = list(dropwhile(lambda line: not line.startswith("-- Process"), report))
    return own + list(takewhile(bool, error))
