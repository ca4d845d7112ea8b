"""Run cells where they can do no harm: Linux namespaces without network and without our files.

inside.py makes the sandbox from the inside, watch.py watches it from the outside.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from course.grade.watch import LOOK, Limits, Outcome, kill, listen, over
from course.processes import Work

HERE = Path(__file__).resolve().parent
TOOLS = str(HERE)  # the folder of these tools, which has the same name in the sandbox
# This Python as it is in the sandbox, where no link to its folder leads.
PYTHON = Path(sys.prefix).resolve() / "bin" / Path(sys.executable).name
SHOWN = ("cells.py", "guard.py")  # nothing else is in it there
KEPT = ("LD_LIBRARY_PATH", "TZ")
NAMESPACES = "--user --map-root-user --mount --pid --fork --net --ipc --uts --kill-child=SIGKILL"
REMEDY = """\
Students' code runs in Linux namespaces alone. Nothing was run. What may help:
  no Linux:                   grade in a virtual machine with Linux, or in WSL 2
  no `unshare`:               install util-linux
  a container:                docker run --privileged
  Ubuntu from 24.04 on:       sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0
  other systems:              sudo sysctl user.max_user_namespaces=1000"""


def environment() -> dict[str, str]:
    """All that the sandbox gets of our environment."""
    path = f"{PYTHON.parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    about = {"PATH": path, "HOME": "/home/student", "USER": "student", "LANG": "C.UTF-8"}
    return {name: os.environ[name] for name in KEPT if name in os.environ} | about


@dataclass
class Sandbox:
    """One sandbox, for one notebook."""

    folder: Path  # new and empty
    limits: Limits
    data: Path  # read as `data` beside the notebook, if it is there
    work: Work

    def command(self, *inside: object) -> list[str]:
        prefixes = [Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()]
        shown = [*map(str, prefixes), *[f"{TOOLS}/{name}" for name in SHOWN]]
        data = str(self.data.resolve()) if self.data.is_dir() else ""
        settings = {"shown": shown, "data": data, "megabytes": self.limits.disk}
        unshare = [str(shutil.which("unshare")), *NAMESPACES.split()]
        first = [sys.executable, "-m", "course.grade.inside", str(self.folder / "root")]
        return [*unshare, *first, json.dumps(settings), *map(str, inside)]

    def start(self, codes: list[str], *inside: object) -> subprocess.Popen:
        (self.folder / "root").mkdir(parents=True)
        (self.folder / "cells.json").write_text(json.dumps(codes))
        with (
            (self.folder / "cells.json").open() as cells,
            (self.folder / "messages").open("w") as messages,
        ):
            return subprocess.Popen(
                self.command(*inside),
                env=environment() | self.work.environment(),
                stdin=cells,
                stdout=subprocess.PIPE,
                stderr=messages,
            )

    def failed(self, process: subprocess.Popen) -> str:
        """Why the sandbox could not be made, or was left; "" when it came to its end."""
        lines = (self.folder / "messages").read_text().strip().splitlines()
        last = lines[-1][:200] if lines else f"it ended with code {process.returncode}"
        return last if process.returncode else ""

    def probe(self) -> str:
        """Try it out with nothing in it: "" or why it cannot be made here."""
        if not shutil.which("unshare"):
            return "there is no `unshare`"
        process = self.start([], PYTHON, "-c", "")
        process.communicate()
        return self.failed(process)

    def run(self, codes: list[str], stopped: threading.Event) -> Outcome:
        """Run cells to their end, a limit, or the moment when `stopped` is set."""
        outcome = Outcome()
        began = time.monotonic()
        process = self.start(codes, PYTHON, f"{TOOLS}/cells.py", self.limits.cell)
        ear = threading.Thread(target=listen, args=(process, outcome), daemon=True)
        ear.start()
        problem = ""
        try:
            while process.poll() is None and not problem and not stopped.wait(LOOK):
                problem = over(self.limits, process.pid, time.monotonic() - began)
        finally:
            kill(process)
        ear.join(10)
        process.stdout.close()
        outcome.seconds = time.monotonic() - began
        outcome.problem = problem or self.failed(process) or outcome.problem
        return outcome
