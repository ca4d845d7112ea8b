"""Make several launches, two at a time, each as `torchrun --standalone` makes it.

torchrun itself is imported once.

Run:  echo '[["FOLDER", 2, ["equal.py", "--cases", "none"]]]' | python torchruns.py

Reads folder, number of ranks and command of each launch. What a launch prints goes into `log` in
its folder, and its exit code into `exit`.
"""

import json
import os
import sys
from pathlib import Path
from typing import NoReturn

from torch.distributed.run import main


def launch(folder: str, ranks: int, command: list[str]) -> NoReturn:
    """Become torchrun."""
    os.chdir(folder)
    log = os.open("log", os.O_WRONLY | os.O_CREAT, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.exit(main(["--standalone", f"--nproc-per-node={ranks}", *command]))


waiting = json.load(sys.stdin)
folders = {}  # of the launches that run: process id → folder
while waiting or folders:
    while waiting and len(folders) < 2:
        folder, ranks, command = waiting.pop(0)
        child = os.fork()
        if child == 0:
            launch(folder, ranks, command)
        folders[child] = folder

    child, status = os.wait()
    folder = folders.pop(child)
    Path(folder, "exit").write_text(str(os.waitstatus_to_exitcode(status)))
