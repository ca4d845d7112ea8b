"""Watch a sandbox from outside: what its cells tell, and what it uses of time, memory, processes.

The namespaces limit none of these. When one is over its limit, the sandbox's first process is
killed, and with it all others.
"""

import json
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import psutil

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
            told = json.loads(line)
            if told.get("dead"):
                outcome.problem = "its kernel ended"
            elif "error" in told:
                ended = Ended(told["marks"], told["text"], told["error"])
                outcome.cells[told["cell"]] = ended
                outcome.running = None
            else:
                outcome.running = told["cell"]


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
