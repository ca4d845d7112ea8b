"""Runs in the sandbox: the cells of one notebook, one after another, going on after errors.

python cells.py SECONDS < cells.json

SECONDS is the time that one cell may take; it is interrupted then. cells.json is a list of code.
For each cell it prints two lines of JSON: its number when it begins; and when it ends, also the
marks ✓ and ✗ that it printed, the end of what it printed, and the error that stopped it, or "".
"""

import ctypes
import json
import os
import re
import sys

SET_DUMPABLE = 4  # of linux/prctl.h
LETTERS = 3000  # how much of what a cell printed is told
# jsonschema takes seconds to import it, and lives without; the package is not in the sandbox.
sys.modules.setdefault("rfc3987_syntax", None)
COLOUR = re.compile(r"\x1b\[[\d;]*m")


def report_alone() -> int:
    """Keep what starts here from our output: a file descriptor that only we can write to."""
    ctypes.CDLL(None).prctl(SET_DUMPABLE, 0, 0, 0, 0)  # nor by way of /proc
    own = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    return own


def printed(cell) -> str:
    """What a cell printed, as plain text, an error's traceback last."""
    texts = []
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            texts.append(output.text[-2 * LETTERS :])
        elif output.output_type == "error":
            texts.append("\n".join(output.traceback))
    return COLOUR.sub("", "\n".join(text.rstrip("\n") for text in texts))


def marks(cell) -> str:
    """The ✓ and ✗ that a cell printed; those of an error's text are none."""
    texts = [output.text for output in cell.outputs if output.output_type == "stream"]
    return "".join(re.findall("[✓✗]", "".join(texts)))


def error(cell, reply: dict, seconds: float) -> str:
    """What stopped a cell, in one line; "" when it came to its end."""
    for output in cell.outputs:
        if output.output_type == "error" and output.ename == "KeyboardInterrupt":
            return f"no end within {seconds:g} s"
        if output.output_type == "error":
            return COLOUR.sub("", f"{output.ename}: {output.evalue}".split("\n")[0])[:300]
    content = reply["content"]
    return "" if content["status"] == "ok" else content.get("ename", content["status"])


def main() -> None:
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import DeadKernelError

    seconds = float(sys.argv[1])
    sources = json.load(sys.stdin)
    own = report_alone()

    def tell(**said) -> None:
        os.write(own, json.dumps(said).encode() + b"\n")

    def begins(cell, cell_index: int) -> None:
        tell(cell=cell_index)

    def ends(cell, cell_index: int, execute_reply: dict) -> None:
        problem = error(cell, execute_reply, seconds)
        text = printed(cell)[-LETTERS:]
        tell(cell=cell_index, marks=marks(cell), text=text, error=problem)

    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in sources]
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=seconds,
        interrupt_on_timeout=True,
        allow_errors=True,
        on_cell_execute=begins,
        on_cell_executed=ends,
    )
    try:
        client.execute()
    except DeadKernelError:
        tell(dead=True)


if __name__ == "__main__":
    main()
