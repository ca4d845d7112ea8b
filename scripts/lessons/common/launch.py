"""Check every launch of this notebook: `from launch import failure, result` before the first `!torchrun` line.

A program that dies under `!` stops neither its cell nor the notebook. Two hooks around every cell close that hole:
before a `!torchrun … X.py` line they delete the results that X left earlier, after it they keep its exit code and text.
"""

import json
import os
import re
import sys
from pathlib import Path

from IPython import get_ipython

shell = get_ipython()
launches: dict[str, tuple[int | None, str]] = {}  # program → exit code and printed text of its newest launch

# The ranks share the cores, and torchrun belongs to the Python that runs this notebook.
os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 2) // 2)))
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


class LaunchError(RuntimeError):
    """A launch did not end as the notebook needs it to."""


class Tee:
    """Passes everything on to the notebook and keeps a copy."""

    def __init__(self, stream):
        self.stream, self.text = stream, ""

    def write(self, text: str) -> int:
        self.text += text
        return self.stream.write(text)

    def __getattr__(self, name: str):
        return getattr(self.stream, name)


def launched(info) -> str | None:
    """Name of the program that a cell's `!torchrun` line starts."""
    found = re.search(r"^\s*!\s*torchrun\b.*?(\w+)\.py\b", info.raw_cell or "", re.MULTILINE)
    return found and found[1]


def before(info) -> None:
    if name := launched(info):
        launches.pop(name, None)
        shell.user_ns.pop("_exit_code", None)
        for old in [*Path().glob(f"{name}.json"), *Path().glob(f"{name}.rank*.json")]:
            old.unlink()
        sys.stdout = Tee(sys.stdout)


def after(outcome) -> None:
    if isinstance(sys.stdout, Tee):
        tee, sys.stdout = sys.stdout, sys.stdout.stream
        launches[launched(outcome.info)] = shell.user_ns.get("_exit_code"), tee.text


shell.events.register("pre_run_cell", before)
shell.events.register("post_run_cell", after)


def ended(name: str) -> tuple[int, str]:
    code, text = launches.get(name, (None, ""))
    if code is None:
        raise LaunchError(
            f"{name}.py was not launched: run the cell with `!torchrun … {name}.py` first, then this one."
        )
    if code == -2:  # SIGINT
        raise LaunchError(f"{name}.py was interrupted: run its launch again, to the end, then this cell.")
    return code, text


def result(name: str, rank: int = 0) -> dict:
    """What `rank` of program `name` wrote in the launch just made; LaunchError unless that launch succeeded."""
    code, _ = ended(name)
    if code == 127:
        raise LaunchError(
            f"{name}.py was not started: there is no torchrun here. Install torch, then restart the kernel."
        )
    if code != 0:
        raise LaunchError(f"{name}.py failed (exit code {code}). Its own message stands above, in the first Traceback.")
    path = Path(f"{name}.json" if rank == 0 else f"{name}.rank{rank}.json")
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise LaunchError(f"{name}.py ended well but left no readable results in {path} ({error}).") from None


def failure(name: str, expects: str) -> str:
    """What program `name` printed in a launch that had to fail; LaunchError if it succeeded or never said `expects`."""
    code, text = ended(name)
    if code == 0:
        raise LaunchError(f"{name}.py succeeded, and here it was meant to fail with: {expects}")
    if expects not in text:
        raise LaunchError(f"{name}.py failed (exit code {code}), but not as meant; nothing it printed says: {expects}")
    return text
