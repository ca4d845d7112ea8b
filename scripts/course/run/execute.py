"""Runs in a process of its own: one notebook through papermill, from this folder. Started by
notebook.py, as

python -P -m course.run.execute NOTEBOOK EXECUTED HOW

HOW is JSON, as {"parameters": {"N": 1}, "limit": 300, "timing": ""}.

papermill writes EXECUTED after each cell. Exits 1 when a cell failed, or took longer than the limit
in seconds, with papermill's own message. What happens is told on standard output, a line of JSON
each: ["begins", 3] when the third cell begins, ["waits", "…"] when one waits, and why.

`timing` says what cells tagged `timing` do before they begin: with "calm" they wait until nobody
else computes on this machine, and ["busy", ""] is told where one waited in vain; a file's path is a
lock that lets one of them run at a time, of all notebooks that name this file; "" lets them run.
"""

import fcntl
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from course.lesson import tags
from course.run.notebook import INJECTED, NOT_OURS

# Kernels that start side by side may choose the same TCP port; where it is iopub's or the
# heartbeat's, ipykernel 7.4 neither answers nor ends. So they talk over sockets beside the
# notebook's own folder, by a path of few letters.
SOCKETS = {"KernelManager": {"transport": "ipc", "ip": "../kernel"}}


class Calm:
    """Cells wait until the machine has nothing else to do; all together with one's patience."""

    def __init__(self, tell: Callable[[str, object], None]):
        self.tell = tell
        self.waited = 0.0  # seconds

    def begins(self) -> None:
        from course.machine import PATIENCE, speedup, wait_until_calm

        never = threading.Event()  # whoever breaks the run off ends this process
        began = time.monotonic()
        left = max(0.0, PATIENCE - self.waited)
        waits = lambda text: self.tell("waits", text)  # noqa: E731
        if not wait_until_calm("a timing", lambda: speedup({}), never, left, tell=waits):
            self.tell("busy", "")
        self.waited += time.monotonic() - began

    def ends(self) -> None:
        pass


class Turns:
    """Cells of all notebooks that name this file run one at a time."""

    def __init__(self, path: Path):
        self.lock = path.open("w")

    def begins(self) -> None:
        fcntl.flock(self.lock, fcntl.LOCK_EX)

    def ends(self) -> None:
        fcntl.flock(self.lock, fcntl.LOCK_UN)


def engine(tell: Callable[[str, object], None], timing: Calm | Turns | None) -> type:
    """A papermill engine that tells which cell begins, and lets timings wait."""
    from papermill.engines import NBClientEngine

    class TellingEngine(NBClientEngine):
        @classmethod
        def execute_managed_notebook(cls, nb_man, kernel_name: str, **options) -> None:
            start = nb_man.cell_start
            complete = nb_man.cell_complete
            begun = 0

            def measures(cell) -> bool:
                return timing and "timing" in tags(cell)

            def cell_start(cell, *numbers, **more) -> None:
                nonlocal begun
                begun += not {*NOT_OURS, INJECTED}.intersection(tags(cell))
                if measures(cell):
                    timing.begins()
                tell("begins", begun)
                start(cell, *numbers, **more)

            def cell_complete(cell, *numbers, **more) -> None:
                if measures(cell):
                    timing.ends()
                complete(cell, *numbers, **more)

            nb_man.cell_start = cell_start
            nb_man.cell_complete = cell_complete
            super().execute_managed_notebook(nb_man, kernel_name, **options)

    return TellingEngine


def execute(notebook: str, executed: str, how: dict, tell: Callable[[str, object], None]) -> None:
    """Run a notebook; papermill's exception where it fails."""
    from papermill import execute_notebook
    from papermill.engines import papermill_engines
    from traitlets.config import Config

    timing = None
    if how["timing"]:
        timing = Calm(tell) if how["timing"] == "calm" else Turns(Path(how["timing"]))
    papermill_engines.register("telling", engine(tell, timing))
    execute_notebook(
        notebook,
        executed,
        how["parameters"],
        engine_name="telling",
        kernel_name="python3",
        progress_bar=False,
        execution_timeout=how["limit"],
        shutdown_kernel="immediate",  # one that hangs would be asked to end, for five seconds
        config=Config(SOCKETS),
    )


def main() -> None:
    notebook, executed, how = sys.argv[1:]
    # What kernels say by themselves goes where papermill's log goes.
    events = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def tell(what: str, about: object) -> None:
        events.write(json.dumps([what, about]) + "\n")

    execute(notebook, executed, json.loads(how), tell)


if __name__ == "__main__":
    main()
