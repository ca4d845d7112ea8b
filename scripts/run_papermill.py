"""Runs in a process of its own: one notebook through papermill, from this folder. Started by
run_notebook.py, as

python run_papermill.py NOTEBOOK EXECUTED '{"EPOCHS": 1}'

papermill writes EXECUTED after each cell. Exits 1 when a cell failed, with papermill's own message.
"""

import json
import sys

import quick_jsonschema  # noqa: F401

# Kernels that start side by side may choose the same TCP port; where it is iopub's or the
# heartbeat's, ipykernel 7.4 neither answers nor ends. So they talk over sockets beside the
# notebook's own folder, by a path of few letters.
SOCKETS = {"KernelManager": {"transport": "ipc", "ip": "../kernel"}}


def main(notebook: str, executed: str, parameters: str) -> None:
    from papermill import execute_notebook  # after quick_jsonschema
    from traitlets.config import Config

    execute_notebook(
        notebook,
        executed,
        json.loads(parameters),
        kernel_name="python3",
        progress_bar=False,
        config=Config(SOCKETS),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
