"""What a learner does who loses patience: a launch hangs, its cell is interrupted, and the next launch must work.

Run with the Python whose Jupyter is tested, in an empty folder:  python interrupted.py FOLDER

FOLDER holds cells as files: a* helpers, b* a hanging program (its ranks leave their process ids in `rank*`) and its
launch, c* what follows. Prints as JSON the seconds that the interrupted cell still took, which of its ranks were alive
then, and how each cell of c* ended.
"""

import json
import sys
import time
from pathlib import Path

from jupyter_client.manager import start_new_kernel


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text()]


helpers, hanging, again = ([path.read_text() for path in sorted(Path(sys.argv[1]).glob(f"{part}*"))] for part in "abc")
manager, client = start_new_kernel(kernel_name="python3")
for cell in [*helpers, *hanging[:-1]]:
    client.execute_interactive(cell, timeout=60, output_hook=lambda message: None)
client.execute(hanging[-1])
end = time.monotonic() + 60
while len(ranks := list(Path().glob("rank*"))) < 2 and time.monotonic() < end:
    time.sleep(0.1)
time.sleep(1)
manager.interrupt_kernel()
start, pids = time.monotonic(), [int(path.read_text()) for path in ranks]
client.get_shell_msg(timeout=60)
took = time.monotonic() - start
left, replies = alive(pids), []
for cell in again:
    reply = client.execute_interactive(cell, timeout=60, output_hook=lambda message: None)["content"]
    replies.append(f"{reply['status']} {reply.get('evalue', '')}".strip())
print(json.dumps({"seconds": took, "left": left, "replies": replies}))
client.stop_channels()
manager.shutdown_kernel(now=True)
