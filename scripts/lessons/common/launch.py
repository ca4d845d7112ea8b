"""Watch every launch of a notebook: `from launch import printed, result`, ahead of the first one.

A launch is a line such as `!torchrun … ddp.py …`, alone in its cell. If the program dies, neither
the cell nor the notebook stops. Two hooks around each cell close that hole: ahead of a launch they
delete the results that the program left earlier, after it they keep its exit code and its text.
A launch that must go on beside others begins with `agent = Begun("torchrun … ddp.py …")`.

All ranks get three settings from here. Programs belong to the Python that runs this notebook
(PATH). The ranks share its cores (OMP_NUM_THREADS). And from nccl 2.24 on, GPUs that cannot reach
each other's memory, as Kaggle's T4s, fail with error 217 without NCCL_CUMEM_HOST_ENABLE=0
(ray#64109, NCCL#1838).
"""

import atexit
import json
import os
import re
import sys
from pathlib import Path
from subprocess import STDOUT, Popen
from tempfile import mkstemp
from typing import NamedTuple

from IPython import get_ipython

STARTERS = [  # a launch begins with one, behind the `!` and settings such as NCCL_DEBUG=INFO
    "torchrun",
    "python",
    "python -m torch.distributed.launch",
    "python -m torch.distributed.run",
    "accelerate launch",
    "deepspeed",
    "sbatch",
    "srun",
    "g++",
]
STARTER = "|".join(re.escape(starter) for starter in STARTERS)
PROGRAM = r"(?P<file>(?P<name>\w+)\.(?:py|sh|cpp))\b"
LAUNCH = re.compile(rf"^\s*!\s*(?:\w+=\S*\s+)*(?P<starter>{STARTER})\s.*?{PROGRAM}", re.MULTILINE)
INDEX = "Known messages and their remedies: README.md, “An error text?”, and lesson 12."

os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 2) // 2)))
os.environ.setdefault("NCCL_CUMEM_HOST_ENABLE", "0")


class LaunchError(RuntimeError):
    """A launch did not end as the notebook needs it to."""


class Launch(NamedTuple):
    code: int | None  # exit code
    text: str  # everything that was printed
    starter: str  # such as "torchrun"
    file: str  # such as "ddp.py"


class Tee:
    """Passes everything on to the notebook and keeps a copy."""

    text = ""

    def __init__(self, stream):
        self.stream = stream

    def write(self, text: str) -> int:
        self.text += text
        return self.stream.write(text)

    def __getattr__(self, name: str):
        return getattr(self.stream, name)


shell = get_ipython()
launches: dict[str, Launch] = {}  # the newest of each program, by its name


def forget(name: str) -> None:
    """Ahead of a launch: nothing of an earlier one of this program may remain."""
    launches.pop(name, None)
    for path in [*Path().glob(f"{name}.json"), *Path().glob(f"{name}.rank*.json")]:
        path.unlink()


def before(info) -> None:
    """Ahead of a cell: see whether it launches a program."""
    if match := LAUNCH.search(info.raw_cell or ""):
        forget(match["name"])
        shell.user_ns.pop("_exit_code", None)
        sys.stdout = Tee(sys.stdout)


def after(outcome) -> None:
    """After a cell: if it launched a program, keep how that ended and what it printed."""
    if type(sys.stdout) is Tee:
        tee = sys.stdout
        sys.stdout = tee.stream
        match = LAUNCH.search(outcome.info.raw_cell)
        code = shell.user_ns.get("_exit_code")
        launches[match["name"]] = Launch(code, tee.text, *match.group("starter", "file"))


class Begun(Popen):
    """A launch beside the notebook, until `wait()`: then `result` and `failure` read it."""

    def __init__(self, command: str):
        self.match = LAUNCH.match(f"!{command}")
        if self.match is None:
            raise LaunchError(f"this starts no program that can be watched: {command}")
        forget(self.match["name"])
        handle, self.log = mkstemp()
        with os.fdopen(handle, "w") as log:
            super().__init__(f"exec env {command}", shell=True, stdout=log, stderr=STDOUT)
        atexit.register(self.terminate)  # no launch outlives its notebook

    def wait(self, timeout: float | None = None) -> int:
        code = super().wait(timeout)
        text = Path(self.log).read_text()
        print(text, end="")
        launches[self.match["name"]] = Launch(code, text, *self.match.group("starter", "file"))
        return code


shell.events.register("pre_run_cell", before)
shell.events.register("post_run_cell", after)


def ended(name: str, well: bool = False) -> Launch:
    """The newest launch of program `name`; LaunchError unless it has ended (`well`: with 0)."""
    launch = launches.get(name)
    if launch is None or launch.code is None:
        raise LaunchError(f"{name} was not launched: run the cell that launches it, then this one.")
    if launch.code == -2:  # SIGINT
        raise LaunchError(f"{launch.file} was interrupted: launch it again, then run this cell.")
    if well and launch.code == 127:
        remedy = f"there is no {launch.starter.split()[0]} here. Install it, restart the kernel."
        raise LaunchError(f"{launch.file} was not started: {remedy}")
    if well and launch.code != 0:
        remedy = f"Its own message stands above, in the first Traceback. {INDEX}"
        raise LaunchError(f"{launch.file} failed (exit code {launch.code}). {remedy}")
    return launch


def printed(name: str) -> str:
    """What program `name` printed in its newest launch; LaunchError unless it succeeded."""
    return ended(name, well=True).text


def result(name: str, rank: int = 0) -> dict:
    """What `rank` of program `name` wrote in its newest launch; LaunchError unless it succeeded."""
    launch = ended(name, well=True)
    path = Path(f"{name}.json" if rank == 0 else f"{name}.rank{rank}.json")
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        problem = f"ended well but left no readable results in {path} ({error})."
        raise LaunchError(f"{launch.file} {problem}") from None


def failure(name: str, expects: str) -> str:
    """What program `name` printed in a launch that had to fail and to say what it `expects`."""
    launch = ended(name)
    if launch.code == 0:
        raise LaunchError(f"{launch.file} succeeded, and here it was meant to fail with: {expects}")
    if expects not in launch.text:
        problem = f"{launch.file} failed (exit code {launch.code}), but not as meant"
        raise LaunchError(f"{problem}; nothing it printed says: {expects}. {INDEX}")
    return launch.text
