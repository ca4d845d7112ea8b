"""What the campaign of faults starts, and how it finds that nothing of it lives on."""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

import psutil

from course import processes

# In the environment of all that we start; the tool gives its own children another mark as well.
STAMP = "COURSE_FAULT"
stopped = threading.Event()  # set when the campaign itself ends


class Lost(Exception):
    """A fault cost what it must not cost; the message says what."""


class Stopped(BaseException):
    """The campaign itself ends."""


def demand(truth: object, otherwise: str) -> None:
    """Lost, with what is to be said otherwise, unless something is true."""
    if not truth:
        raise Lost(otherwise)


def wait(condition: Callable, seconds: float, pause: float = 0.03):
    """The first true answer of `condition`, or the last one when time is up."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer or time.monotonic() >= deadline:
            return answer
        if stopped.wait(pause):
            raise Stopped


def start(command: Collection, folder: Path, mark: str, **more: str | Path) -> subprocess.Popen:
    """Start a process in a folder, with `more` in its environment.

    All that it starts bears the mark, and all that they say goes to the file `said` there.
    """
    if stopped.is_set():
        raise Stopped
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    names = {STAMP: mark, "TMPDIR": temporary, "FOLDER": folder, "CUDA_VISIBLE_DEVICES": ""}
    names |= {"OMP_NUM_THREADS": "1"} | more
    with (folder / "said").open("a") as said:
        return subprocess.Popen(
            list(map(str, command)),
            cwd=folder,
            env=os.environ | {name: str(value) for name, value in names.items()},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )


def marked(mark: str) -> dict[int, dict[str, str]]:
    """Living processes with this mark: process id → environment. A zombie has none."""
    living = {}
    for number in psutil.pids():
        with suppress(psutil.Error):
            environment = psutil.Process(number).environ()
            if environment.get(STAMP) == mark:
                living[number] = environment
    return living


def command_line(process: int) -> str:
    """How a process was started; nothing where it is over."""
    with suppress(psutil.Error):
        return " ".join(psutil.Process(process).cmdline())
    return ""


def still(process: int) -> bool:
    """Whether a process does nothing: it is stopped, or over."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(process).status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    return True


def gone(mark: str, among: Collection[int] | None = None, seconds: float = 10) -> None:
    """Lost unless the processes with this mark, or those among some, end in time."""

    def left() -> list[int]:
        return [number for number in marked(mark) if among is None or number in among]

    if not wait(lambda: not left(), seconds):
        lines = [command_line(number)[-90:] for number in left()]
        alive = "; ".join(line for line in lines if line)
        demand(not alive, f"alive after {seconds:g} s: {alive}")


def end(mark: str) -> None:
    """Kill, until none is left, the processes with a mark that begins like this."""
    processes.end(mark, name=STAMP)
