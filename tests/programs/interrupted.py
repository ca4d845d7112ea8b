"""What a learner does who loses patience: a launch hangs, its cell is interrupted, another follows.

Run with the Python whose Jupyter is tested, in an empty folder:  python interrupted.py FOLDER

FOLDER holds cells as files: a* helpers, b* a hanging program (its ranks leave their process ids in
`rank*`) and its launch, c* what follows. Prints as JSON the seconds that the interrupted cell still
took, which of its ranks were alive then, and how each cell of c* ended.
"""

import json
import sys
import time
from pathlib import Path

from jupyter_client.client import KernelClient
from jupyter_client.manager import start_new_kernel


def cells(part: str) -> list[str]:
    """The cells whose files begin with this letter."""
    return [path.read_text() for path in sorted(Path(sys.argv[1]).glob(f"{part}*"))]


def alive(pid: int) -> bool:
    if not Path(f"/proc/{pid}").exists():
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text()


def execute(client: KernelClient, cell: str) -> dict:
    """How a cell ended, once it has."""
    reply = client.execute_interactive(cell, timeout=60, output_hook=lambda message: None)
    return reply["content"]


def wait_for_ranks(count: int, limit: float) -> list[int]:
    """Process ids of the ranks: of so many, or of those that are there after `limit` seconds."""
    end = time.monotonic() + limit
    paths = list(Path().glob("rank*"))
    while len(paths) < count and time.monotonic() < end:
        time.sleep(0.1)
        paths = list(Path().glob("rank*"))
    time.sleep(1)
    return [int(path.read_text()) for path in paths]


manager, client = start_new_kernel(kernel_name="python3")
*program, launch = cells("b")
for cell in [*cells("a"), *program]:
    execute(client, cell)

# The launch hangs, and is interrupted.
client.execute(launch)
pids = wait_for_ranks(2, limit=60)
manager.interrupt_kernel()
interrupted = time.monotonic()
client.get_shell_msg(timeout=60)
seconds = time.monotonic() - interrupted
left = [pid for pid in pids if alive(pid)]

replies = []
for cell in cells("c"):
    content = execute(client, cell)
    replies.append(f"{content['status']} {content.get('evalue', '')}".strip())
print(json.dumps({"seconds": seconds, "left": left, "replies": replies}))
client.stop_channels()
manager.shutdown_kernel(now=True)
