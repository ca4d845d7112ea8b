"""Run the code cells of a list, `["x = 1", "!torchrun …"]` in a JSON file, in one IPython; stop at
the first error.

Run:  python cells_in_turn.py cells.json

It is what a notebook's kernel does, without the seconds that a kernel needs to start.
"""

import json
import sys
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell


def main() -> int:
    sys.path[0] = ""  # the folder of the notebook, not that of this file
    shell = InteractiveShell.instance(colors="NoColor")
    for cell in json.loads(Path(sys.argv[1]).read_text()):
        outcome = shell.run_cell(cell, store_history=False)
        sys.stdout.flush()
        if not outcome.success:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
