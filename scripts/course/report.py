"""runs.json in a folder of notebooks as they ran: how each run ended."""

import json
from datetime import datetime
from pathlib import Path

from course.files import write
from course.lesson import BuildError

NAME = "runs.json"


def keep(rows: list[dict], folder: Path, **facts) -> None:
    """Write it, with facts about the whole."""
    ended = datetime.now().astimezone().isoformat(" ", "minutes")
    report = {"ended": ended, **facts, "runs": rows}
    write(folder / NAME, json.dumps(report, indent=1, ensure_ascii=False) + "\n")


def read(folder: Path) -> dict:
    """What it says; BuildError without one."""
    try:
        return json.loads((folder / NAME).read_text())
    except (OSError, ValueError) as error:
        remedy = "`make run` makes it; `make site` builds from the kept outputs"
        raise BuildError(f"{folder}: no run is kept here ({error}): {remedy}.") from error
