"""Runs in a process of its own: one notebook through papermill, from this folder. Started by
run_notebook.py, as

python run_papermill.py NOTEBOOK EXECUTED '{"EPOCHS": 1}' [WAITS]

papermill writes EXECUTED after each cell. Exits 1 when a cell failed, with papermill's own message.
With WAITS, a file, each cell tagged `timing` waits until nobody else computes on this machine: what
it waits for is then the file's text, and a cell that waited in vain is marked as busy.
"""

import functools
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import quick_jsonschema  # noqa: F401

# Kernels that start side by side may choose the same TCP port; where it is iopub's or the
# heartbeat's, ipykernel 7.4 neither answers nor ends. So they talk over sockets beside the
# notebook's own folder, by a path of few letters.
SOCKETS = {"KernelManager": {"transport": "ipc", "ip": "../kernel"}}

WAITED: list[float] = []  # seconds, each time that a cell waited


def calm_engine(wait: Callable[[], bool]) -> type:
    """A papermill engine that calls `wait` ahead of cells tagged `timing`; is it calm then?"""
    from papermill.engines import NBClientEngine

    class CalmEngine(NBClientEngine):
        @classmethod
        def execute_managed_notebook(cls, nb_man, kernel_name: str, **options) -> None:
            start = nb_man.cell_start

            @functools.wraps(start)
            def cell_start(cell, *numbers, **more) -> None:
                if "timing" in cell.metadata.get("tags", []) and not wait():
                    cell.metadata["busy"] = True
                start(cell, *numbers, **more)

            nb_man.cell_start = cell_start
            super().execute_managed_notebook(nb_man, kernel_name, **options)

    return CalmEngine


def wait(waits: Path) -> bool:
    """Wait for a calm machine; all cells of a notebook together have the patience of one."""
    from run_machine import PATIENCE, speedup, wait_until_calm

    never = threading.Event()  # whoever breaks the run off ends this process
    began = time.monotonic()
    left = max(0.0, PATIENCE - sum(WAITED))
    calm = wait_until_calm("a timing", lambda: speedup({}), never, left, tell=waits.write_text)
    WAITED.append(time.monotonic() - began)
    return calm


def main(notebook: str, executed: str, parameters: str, waits: str = "") -> None:
    from papermill import execute_notebook  # after quick_jsonschema
    from papermill.engines import papermill_engines
    from traitlets.config import Config

    if waits:
        papermill_engines.register("calm", calm_engine(lambda: wait(Path(waits))))
    execute_notebook(
        notebook,
        executed,
        json.loads(parameters),
        engine_name="calm" if waits else None,
        kernel_name="python3",
        progress_bar=False,
        config=Config(SOCKETS),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
