"""Run cells in a kernel, one after another, and tell how each ended and what it printed.

Run with the Python whose Jupyter is tested, in the folder of the cells' programs:
    echo '["x = 1", "print(x)", "1 / 0"]' | python kernel_cells.py

Prints a JSON list of pairs: "ok" or "ZeroDivisionError: …", and the text of the cell.
"""

import json
import sys

from jupyter_client.client import KernelClient
from jupyter_client.manager import start_new_kernel


def execute(client: KernelClient, cell: str) -> tuple[str, str]:
    """How a cell ended, and its text, once it has ended."""
    printed = []

    def keep(message: dict) -> None:
        if message["msg_type"] == "stream":
            printed.append(message["content"]["text"])

    # An error must not end the next cell too, should that reach the kernel a moment too early.
    reply = client.execute_interactive(cell, timeout=120, output_hook=keep, stop_on_error=False)[
        "content"
    ]
    ending = "ok"
    if reply["status"] != "ok":
        ending = f"{reply['ename']}: {reply['evalue']}"
    return ending, "".join(printed)


manager, client = start_new_kernel(kernel_name="python3")
try:
    endings = [execute(client, cell) for cell in json.load(sys.stdin)]
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
print(json.dumps(endings))
