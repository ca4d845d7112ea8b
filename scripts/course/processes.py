"""Whatever a tool starts, and whatever that starts in turn, is gone when the tool has ended,
however it ended.

torchrun gives every rank a session of its own, so no process group holds all of them. But a child
inherits its parent's environment: what we started is known by a variable there, whose value begins
with a mark of ours.

    with guarded("COURSE_RUN", "course-") as work:  # work.folder is new and empty
        subprocess.Popen(command, env=os.environ | work.environment("0-"))
        work.end("0-")  # this process and what it started; all others at the end of `with`

Used by course.run.notebooks, course.measure and tests/campaigns/faults.py.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

MARK = "COURSE_RUN"  # the variable that course.run.notebooks uses


def carries(process: psutil.Process, name: str, mark: str) -> bool:
    """Whether a process lives and has a mark that begins like this.

    Raises psutil.Error where it has ended meanwhile, or is another user's.
    """
    marked = process.environ().get(name, "").startswith(mark)
    return marked and process.status() != psutil.STATUS_ZOMBIE


def end(mark: str, spare: int = 0, seconds: float = 10, name: str = MARK) -> None:
    """Kill, until none is left, the processes that were started with a mark that begins so."""
    deadline = time.monotonic() + seconds
    quiet = 0
    # One look can miss a process in the moment of its birth.
    while quiet < 2 and time.monotonic() < deadline:
        quiet += 1
        for number in set(psutil.pids()) - {os.getpid(), spare}:
            with suppress(psutil.Error):
                # It knows its start time, so a process id that is used again is never hit.
                process = psutil.Process(number)
                if carries(process, name, mark):
                    quiet = 0
                    process.kill()
        time.sleep(0.05)


def stop(number: int, _) -> None:
    """A signal's handler: leave by SystemExit, so that every `finally` clears up, undisturbed."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # clearing up has begun
    raise SystemExit(128 + number)


def guard(mark: str, folder: str, name: str = MARK) -> None:
    """Runs beside us in a session of its own, and clears up when our end of its pipe closes.

    That happens however we end, even by SIGKILL.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.read()
    end(mark, name=name)
    shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Work:
    """What belongs to one run of a tool: a temporary folder, and processes that carry its mark."""

    name: str  # the environment variable that carries the mark
    mark: str
    folder: Path

    def environment(self, part: str = "") -> dict[str, str]:
        """The variable to start processes with; a part of ours can be ended alone."""
        return {self.name: f"{self.mark}-{part}"}

    def end(self, part: str = "", spare: int = 0) -> None:
        """Kill the processes of one part, or all; `spare` is the id of one that may live on."""
        end(f"{self.mark}-{part}", spare, name=self.name)


@contextmanager
def guarded(name: str, prefix: str) -> Iterator[Work]:
    """A new temporary folder and a new mark. At the end folder and marked processes are gone.

    That holds after an exception, after SIGINT and SIGTERM, which become SystemExit here, and even
    after SIGKILL: then a guardian process clears up. The handlers of the signals stay as they are
    then, so that an impatient second Ctrl-C breaks nothing off.
    """
    work = Work(name, uuid.uuid4().hex, Path(tempfile.mkdtemp(prefix=prefix)))
    # The guardian must outlive what it ends, so it does not get the mark.
    watch = [sys.executable, "-P", __file__, work.mark, work.folder, name]
    quiet = subprocess.DEVNULL
    guardian = subprocess.Popen(
        watch, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        yield work
    finally:
        guardian.communicate()  # closes its pipe, and waits until it has cleared up
        if guardian.returncode:  # somebody killed it
            work.end()
            shutil.rmtree(work.folder, ignore_errors=True)


if __name__ == "__main__":
    guard(*sys.argv[1:])
