"""Processes that run beside a test, until its block ends."""

import subprocess
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def ready(command: Collection[str | Path], environment: Mapping[str, str]) -> Iterator[int]:
    """Start a process that says `ready`; its id. At the end it is killed.

    RuntimeError with what it says instead.
    """
    started = subprocess.Popen(
        list(map(str, command)),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with started:
        try:
            said = started.stdout.readline()
            if said != "ready\n":
                said += started.stdout.read()
                raise RuntimeError(f"{' '.join(started.args)} did not start: {said}")
            yield started.pid
        finally:
            started.kill()


@contextmanager
def beside(
    command: Collection[str | Path], environment: Mapping[str, str], folder: Path, log: str
) -> Iterator[subprocess.Popen]:
    """Start a process in a folder; what it says goes into a file there. At the end it is killed."""
    with (folder / log).open("a") as said:
        started = subprocess.Popen(
            list(map(str, command)),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
    with started:
        try:
            yield started
        finally:
            started.kill()
