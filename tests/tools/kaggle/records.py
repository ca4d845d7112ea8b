"""A made-up record of a run on two T4s, for tests alone: none of its numbers was ever measured."""

from course import same

CODE = same.digest("1 + 1", "2")  # of the notebook of test_publish.py
MACHINE = {
    "gpus": ["Tesla T4", "Tesla T4"],
    "driver": "1.2.3",
    "torch": "2.10.0+cu128",
    "nccl": "2.27.5",
    "python": "3.12.12",
    "cores": 4,
    "kaggle": True,
}


def a_cell(line: str, *printed: str, mark: str = "00000000") -> dict:
    return {"mark": mark, "line": line, "seconds": 1.0, "printed": list(printed)}


def a_launch(program: str, ranks: int = 2, **reported: object) -> dict:
    facts = {"backend": "nccl", "world_size": ranks} | reported
    entry = {"program": program, "code": 0, "ranks": ranks, "seconds": 3.0}
    return entry | {"reported": facts}


def a_record(**changed: object) -> dict:
    """That of the solved notebook `02_two`, which ran to its end in six minutes."""
    cells = [
        a_cell("import re", "✓ one"),
        a_cell("!torchrun --standalone --nproc-per-node=2 ddp.py", "rank 0"),
        a_cell('run = result("ddp")', "✓ two"),
    ]
    run = {
        "notebook": "solutions/02_two",
        "code": CODE,
        "date": "2026-12-01",
        "seconds": 360,
        "whole": True,
        "running": "",
        "machine": dict(MACHINE),
        "cells": cells,
        "launches": [a_launch("ddp")],
    }
    return run | changed
