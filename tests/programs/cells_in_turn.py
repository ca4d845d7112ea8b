"""Run the code cells of a list in one IPython, up to the first error; at some places try several
ways to go on. It is what a notebook's kernel does, without the seconds that one needs to start.

Run:  python cells_in_turn.py plan.json    # → answers.json

A step of the plan is a cell, as "!torchrun …", or a list of trials. Each trial is made in a process
forked at that place, so that none sees what another left: {"files": {name: text}, "cells": [cell,
…]}. For each the list in answers.json holds what it printed, the titles of its figures, and its
error, if any.
"""

import json
import os
import sys
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


def titles() -> list[str]:
    """What stands above the figures that are open."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    numbers = pyplot.get_fignums() if pyplot else []
    return [
        axes.get_title(side)
        for number in numbers
        for axes in pyplot.figure(number).axes
        for side in ("left", "center", "right")
    ]


def run(shell: InteractiveShell, cell: str) -> str:
    """The cell's error, or ""."""
    outcome = shell.run_cell(cell, store_history=False)
    sys.stdout.flush()
    error = outcome.error_before_exec or outcome.error_in_exec
    return f"{type(error).__name__}: {error}" if error else ""


def attempt(shell: InteractiveShell, trial: dict, place: Path) -> None:
    """In a process of its own: run the cells of a trial, and write what came of them."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot:
        pyplot.close("all")
    for name, text in trial["files"].items():
        Path(name).write_text(text)
    printed = place.with_suffix(".txt")
    descriptor = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    error = ""
    for cell in trial["cells"]:
        error = run(shell, cell)
        if error:
            break
    outcome = {"text": printed.read_text(), "titles": titles(), "error": error}
    place.write_text(json.dumps(outcome))


def main() -> int:
    plan = json.loads(Path(sys.argv[1]).read_text())
    os.environ.setdefault("TORCHRUN_FOR", str(os.getpid()))  # the trials share one forkserver
    sys.path[0] = ""  # the folder of the notebook, not that of this file
    # Its history has a thread, which a forked process would miss.
    shell = InteractiveShell.instance(
        colors="NoColor", config=Config({"HistoryManager": {"enabled": False}})
    )
    outcomes = []
    for step in plan:
        if isinstance(step, str):
            error = run(shell, step)
            if error:
                sys.exit(f"a cell fails: {error}")
            continue
        before = {name: Path(name).read_text() for trial in step for name in trial["files"]}
        for trial in step:
            place = Path(f"trial-{len(outcomes)}.json")
            child = os.fork()
            if child == 0:
                try:
                    attempt(shell, trial, place)
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
            missing = {"text": "", "titles": [], "error": "its process died"}
            outcomes.append(json.loads(place.read_text()) if place.exists() else missing)
            for name, text in before.items():
                Path(name).write_text(text)
    Path("answers.json").write_text(json.dumps(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
