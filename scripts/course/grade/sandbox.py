"""Run cells where they can do no harm: Linux namespaces without network and without our files.

bubblewrap makes them; here they are begun, watched and ended.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import psutil

from course.processes import Work

# ---- what it may take, and what it took


LOOK = 0.1  # seconds between two looks at what runs
THREADS = 16  # of a process, on average, at most


@dataclass(frozen=True)
class Limits:
    """What one notebook may use."""

    seconds: float = 600
    cell: float = 120  # seconds
    memory: int = 8192  # MiB, of all processes together
    processes: int = 256
    disk: int = 2048  # MiB

    def __str__(self) -> str:
        sizes = f"{self.memory} MiB of memory, {self.disk} MiB of files"
        return f"{self.seconds:g} s, {sizes} and {self.processes} processes"


class Ended(NamedTuple):
    """What a cell that came to its end left."""

    marks: str
    text: str
    error: str


@dataclass
class Outcome:
    """How far a notebook came in the sandbox."""

    cells: dict[int, Ended] = field(default_factory=dict)
    running: int | None = None  # the cell that has begun, and has not ended
    problem: str = ""  # why it was stopped
    seconds: float = 0


def over(limits: Limits, number: int, seconds: float) -> str:
    """Which limit the sandbox of process `number` exceeds, in words; "" when none."""
    if seconds > limits.seconds:
        return f"no end within {limits.seconds:g} s"
    memory = 0
    processes = 0
    threads = 0
    with suppress(psutil.Error):
        for process in psutil.Process(number).children(recursive=True):
            with suppress(psutil.Error):  # it has ended meanwhile
                processes += 1
                memory += process.memory_info().rss
                threads += process.num_threads()
    if processes > limits.processes or threads > THREADS * limits.processes:
        return f"more than {limits.processes} processes"
    if memory > limits.memory * 2**20:
        return f"more than {limits.memory} MiB of memory"
    return ""


def listen(process: subprocess.Popen, outcome: Outcome) -> None:
    """Take down what the sandbox tells of its cells."""
    while line := process.stdout.readline(2**17):
        with suppress(ValueError, KeyError, TypeError):
            message = json.loads(line)
            if message.get("dead"):
                outcome.problem = "its kernel ended"
            elif "error" in message:
                ended = Ended(message["marks"], message["text"], message["error"])
                outcome.cells[message["cell"]] = ended
                outcome.running = None
            else:
                outcome.running = message["cell"]


def kill(process: subprocess.Popen) -> None:
    """End a sandbox, if it has not ended: its first process takes all others with it."""
    if process.poll() is not None:
        return
    with suppress(psutil.Error):
        for first in psutil.Process(process.pid).children():
            first.kill()
    try:
        process.wait(5)  # until all are gone
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# ---- one sandbox


HERE = Path(__file__).resolve().parent
TOOLS = str(HERE)  # the folder of these tools, which has the same name in the sandbox
# This Python as it is in the sandbox, where no link to its folder leads.
PYTHON = Path(sys.prefix).resolve() / "bin" / Path(sys.executable).name
SHOWN = ("cells.py", "guard.py", "ranks.py")  # nothing else is in it there
KEPT = ("LD_LIBRARY_PATH", "TZ")
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/sys")
SYSTEM += tuple(f"/etc/{name}" for name in ("alternatives", "ld.so.cache", "localtime"))
USER = "1000"  # who the student is in the sandbox, whoever grades
HOME = "/room/home"
FILES = {
    "passwd": f"student:x:{USER}:{USER}::{HOME}:/bin/sh\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
}
# Own namespaces of every kind, and no right in them; all end with us.
ALONE = "--unshare-all --unshare-user --disable-userns --cap-drop ALL --die-with-parent"
ALONE += f" --new-session --hostname localhost --uid {USER} --gid {USER}"
REMEDY = """\
Students' code runs in a sandbox of bubblewrap alone. Nothing was run. What may help:
  no Linux:                   grade in a virtual machine with Linux, or in WSL 2
  no `bwrap`, or before 0.8:  install bubblewrap (Debian, Ubuntu: apt install bubblewrap)
  a container:                docker run --privileged
  Ubuntu from 24.04 on:       sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0
  other systems:              sudo sysctl user.max_user_namespaces=1000"""


def environment() -> dict[str, str]:
    """All that the sandbox gets of our environment."""
    path = f"{PYTHON.parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    about = {"PATH": path, "HOME": HOME, "USER": "student", "LANG": "C.UTF-8"}
    return {name: os.environ[name] for name in KEPT if name in os.environ} | about


@dataclass
class Sandbox:
    """One sandbox, for one notebook."""

    folder: Path  # new and empty
    limits: Limits
    data: Path  # read as `data` beside the notebook, if it is there
    work: Work

    def command(self, *inside: object) -> list[str]:
        """bwrap with all that is to be seen, read-only, and one room in memory to write in."""
        words = [str(shutil.which("bwrap")), *ALONE.split()]
        for path in SYSTEM:
            if Path(path).is_symlink():
                words += ["--symlink", str(Path(path).readlink()), path]
            else:
                words += ["--ro-bind-try", path, path]
        for name in FILES:
            words += ["--ro-bind", str(self.folder / name), f"/etc/{name}"]
        for prefix in {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}:
            words += ["--ro-bind", str(prefix), str(prefix)]
        for name in SHOWN:
            words += ["--ro-bind", f"{TOOLS}/{name}", f"{TOOLS}/{name}"]

        size = ["--size", str(self.limits.disk * 2**20)]
        words += ["--proc", "/proc", "--dev", "/dev", *size, "--tmpfs", "/dev/shm"]
        words += [*size, "--tmpfs", "/room", "--dir", "/room/tmp", "--symlink", "room/tmp", "/tmp"]
        words += ["--dir", HOME, "--dir", "/room/notebook", "--chdir", "/room/notebook"]
        if self.data.is_dir():
            words += ["--ro-bind", str(self.data.resolve()), "/room/notebook/data"]
        # Of themselves / and /dev have no limit.
        return [*words, "--remount-ro", "/dev", "--remount-ro", "/", *map(str, inside)]

    def start(self, codes: list[str], *inside: object) -> subprocess.Popen:
        self.folder.mkdir(parents=True)
        for name, text in FILES.items():
            (self.folder / name).write_text(text)
        (self.folder / "cells.json").write_text(json.dumps(codes))
        with (
            (self.folder / "cells.json").open() as cells,
            (self.folder / "messages").open("w") as messages,
        ):
            return subprocess.Popen(
                self.command(*inside),
                env=environment() | self.work.environment(),
                stdin=cells,
                stdout=subprocess.PIPE,
                stderr=messages,
            )

    def failed(self, process: subprocess.Popen) -> str:
        """Why the sandbox could not be made, or was left; "" when it came to its end."""
        lines = (self.folder / "messages").read_text().strip().splitlines()
        last = lines[-1][:200] if lines else f"it ended with code {process.returncode}"
        return last if process.returncode else ""

    def probe(self) -> str:
        """Try it out with nothing in it: "" or why it cannot be made here."""
        if not shutil.which("bwrap"):
            return "there is no `bwrap`"
        process = self.start([], PYTHON, "-c", "")
        process.communicate()
        return self.failed(process)

    def run(self, codes: list[str], stopped: threading.Event) -> Outcome:
        """Run cells to their end, a limit, or the moment when `stopped` is set."""
        outcome = Outcome()
        began = time.monotonic()
        process = self.start(codes, PYTHON, f"{TOOLS}/cells.py", self.limits.cell)
        ear = threading.Thread(target=listen, args=(process, outcome), daemon=True)
        ear.start()
        problem = ""
        try:
            while process.poll() is None and not problem and not stopped.wait(LOOK):
                problem = over(self.limits, process.pid, time.monotonic() - began)
        finally:
            kill(process)
        ear.join(10)
        process.stdout.close()
        outcome.seconds = time.monotonic() - began
        outcome.problem = problem or self.failed(process) or outcome.problem
        return outcome
