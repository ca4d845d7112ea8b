"""What is dear to make is made once for all workers of one pytest, not once a worker."""

import fcntl
import os
import shutil
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

MADE = "made"


def shared(factory: pytest.TempPathFactory) -> Path:
    """The folder of this pytest that all its workers see; without workers its own."""
    folder = factory.getbasetemp()
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    return folder.parent if folder.name == f"popen-{worker}" else folder


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that `make` has filled, in the first worker that asked for this name.

    The others wait. The folder belongs to all: a test that changes something takes a copy. If
    `make` fails, it fails for all of them, and is not tried again.
    """
    return made_in(shared(factory), name, make)


def made_in(place: Path, name: str, make: Callable[[Path], object]) -> Path:
    folder = place / name
    with (place / f"{name}.once").open("a+") as note:
        # The lock of a worker that is killed goes with it: the next one then finds no word in the
        # note, and begins anew. A lock by flock would live on in processes that `make` forked.
        fcntl.lockf(note, fcntl.LOCK_EX)
        note.seek(0)
        outcome = note.read()
        if not outcome:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            try:
                make(folder)
            except (Exception, pytest.fail.Exception):
                note.write(traceback.format_exc())
                raise
            note.write(MADE)
        elif outcome != MADE:
            pytest.fail(f"{name} could not be made:\n{outcome}", pytrace=False)
    return folder
