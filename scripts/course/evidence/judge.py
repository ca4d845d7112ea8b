"""What became of a run on another machine: from its record first, from its log second."""

import json
import re
from pathlib import Path
from typing import NamedTuple

from course.evidence.record import checks, mark
from course.lesson import Lesson

ROW = re.compile(r"^\| (`.*?) \| (.*) \| (.*) \|$", re.MULTILINE)
LINK = re.compile(r"\[([^]]*)\]\(\.\./notebooks/(\w+)\.ipynb")
COLOUR = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
ERROR = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b")  # how an error's line begins
SHOWN = 160  # letters of an error
MOST = 5_000_000  # bytes of a log that are looked at


class Verdict(NamedTuple):
    """How a run ended, in one line; and whether it came to its end."""

    well: bool
    said: str
    page: str = ""  # where the course explains the error


def plain(text: object, most: int = 200) -> str:
    """What somebody else says, in one short line that no terminal takes for a command."""
    printable = "".join(letter if letter.isprintable() else " " for letter in str(text))
    return " ".join(printable.split())[:most]


def explained(root: Path, text: str) -> str:
    """The section of the course for an error: of all rows that fit, that of the longest piece."""
    path = root / "assets" / "error-texts.md"
    table = path.read_text() if path.exists() else ""
    fitting = []
    for match in ROW.finditer(table):
        pieces = [piece for piece in re.findall(r"`([^`]+)`", match[1]) if piece in text]
        link = LINK.search(match[2])
        if pieces and link:
            last = "↑" in match[0]  # tells no cause
            fitting.append((not last, max(map(len, pieces)), f"lesson {link[2]}, {link[1]}"))
    return max(fitting)[2] if fitting else ""


def of_record(root: Path, run: dict) -> Verdict:
    """How a run ended, as it recorded it."""
    minutes = f"{run['seconds'] / 60:.1f} minutes"
    gpus = run["machine"]["gpus"]
    where = f"{len(gpus)} × {gpus[0]}" if gpus else "no GPU"
    cells = run["cells"]
    failed = next((cell for cell in cells if "error" in cell), None)
    if run["whole"] and failed is None:
        right, wrong = checks(run)
        return Verdict(True, f"ran to the end in {minutes} on {where}, {right} ✓ and {wrong} ✗")
    if failed is None:
        line = run["running"] or (cells[-1]["line"] if cells else "")
        number = len(cells) + bool(run["running"])
        said = f"ended in cell {number} ({plain(line, 60)}) without an error, after {minutes}"
        return Verdict(False, f"{said}: perhaps there was no memory left, or no time")
    number = cells.index(failed) + 1
    told = failed["error"]
    if told.startswith("LaunchError") and run["launches"]:  # the cause was printed by the launch
        told = "\n".join([*run["launches"][-1].get("printed", []), told])
    line = plain(failed["line"], 60)
    said = f"failed in cell {number} ({line}): {plain(failed['error'], SHOWN)}"
    return Verdict(False, said, explained(root, told))


def text_of(log: str) -> str:
    """What a log of Kaggle says: a list of {stream_name, time, data}, or plain text."""
    log = log[-MOST:] if log[:1] != "[" else log
    try:
        entries = json.loads(log)
        text = "".join(str(entry["data"]) for entry in entries)
    except (ValueError, TypeError, KeyError, RecursionError):
        text = log
    return COLOUR.sub("", text)


def of_log(root: Path, log: str, state: str, failure: str) -> Verdict:
    """How a run ended that left no record: an unsolved notebook, or one that never began."""
    if state == "COMPLETE":
        return Verdict(True, "ran to the end")
    text = text_of(log)
    lines = [line.strip() for line in text.splitlines()]
    errors = [line for line in lines if ERROR.match(line)]
    last = (errors or [failure])[-1] or next(filter(None, reversed(lines)), "")
    ended = "was cancelled" if state.startswith("CANCEL") else "failed"
    return Verdict(False, f"{ended}: {plain(last, SHOWN) or 'no log'}", explained(root, text))


def verdicts(run: dict, solved: Lesson) -> list[str]:
    """What the cells that give a verdict came to, in the words of the run."""
    wanted = {mark(cell.source) for cell in solved.code if "verdict" in cell.tags}
    told = [cell["printed"] for cell in run["cells"] if cell["mark"] in wanted]
    return [plain(" ".join(lines), 300) for lines in told if lines]
