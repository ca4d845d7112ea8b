"""Make several launches, two at a time, each as `torchrun --standalone` makes it. torchrun itself is imported once.

Run:  echo '[["FOLDER", 2, ["equal.py", "--norm", "none"]]]' | python torchruns.py

Reads folder, number of ranks and command of each launch. What a launch prints goes into `log` in its folder, and its
exit code into `exit`.
"""

import json
import os
import sys
from pathlib import Path

from torch.distributed.run import main

waiting, running = json.load(sys.stdin), {}
while waiting or running:
    while waiting and len(running) < 2:
        folder, ranks, command = waiting.pop(0)
        if child := os.fork():
            running[child] = folder
            continue
        os.chdir(folder)
        log = os.open("log", os.O_WRONLY | os.O_CREAT, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.exit(main(["--standalone", f"--nproc-per-node={ranks}", *command]))
    child, status = os.wait()
    Path(running.pop(child), "exit").write_text(str(os.waitstatus_to_exitcode(status)))
