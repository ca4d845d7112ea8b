"""Which exercises are solved, told in one line to hand in at the end of a lesson.

`import handin`, ahead of the first exercise: from then on the marks that each check prints, ✓ or ✗,
are kept. `handin.line(…)`, at the end, tells what they came to. A check that was changed, or has
not run in this session, counts as open.
"""

import hashlib
import re
import sys
import time
from datetime import UTC, datetime

import torch
from IPython import get_ipython

from launch import Tee


class Check(Tee):
    """What a check prints; its own class, since launch.py takes off every plain Tee."""


began = time.monotonic()
ran: dict[str, str] = {}  # the marks that each check printed when it ran last, by the cell's text
shell = get_ipython()


def is_check(cell: str | None) -> bool:
    """Whether a cell judges an exercise in print."""
    return "✗ not yet" in (cell or "")


def before(info) -> None:
    """Ahead of a check: keep what it is going to print."""
    if is_check(info.raw_cell):
        sys.stdout = Check(sys.stdout)


def after(outcome) -> None:
    """After a check: keep its marks; a check that raised has none."""
    if is_check(outcome.info.raw_cell) and isinstance(sys.stdout, Check):
        tee = sys.stdout
        sys.stdout = tee.stream
        cell = outcome.info.raw_cell.strip()
        ran.pop(cell, None)  # the newest comes last
        ran[cell] = "".join(re.findall("[✓✗]", tee.text)) if outcome.success else ""


shell.events.register("pre_run_cell", before)
shell.events.register("post_run_cell", after)


def ends(cell: str, check: str) -> bool:
    """Whether a cell ends with a check, given as `3:1f0c9a77`: its lines' number and digest."""
    count, _, digest = check.partition(":")
    lines = cell.splitlines()[-int(count) :]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8] == digest


def verdicts(checks: list[str]) -> dict[str, str]:
    """The newest marks of each check. A cell is the check with the most lines that it ends with."""
    longest = sorted(checks, key=lambda check: -int(check.partition(":")[0]))
    found = {}
    for cell, marks in ran.items():
        own = next((check for check in longest if ends(cell, check)), None)
        if own:
            found[own] = marks
    return found


def machine() -> str:
    """What the lesson ran on, as "Tesla T4 ×2" or "CPU"."""
    if not torch.cuda.is_available():
        return "CPU"
    return f"{torch.cuda.get_device_name()} ×{torch.cuda.device_count()}"


def line(lesson: str, exercises: dict[str, list[str]]) -> None:
    """Print which exercises are solved, then one line to hand in.

    `exercises` holds the checks of each one, which the build writes. An exercise is solved if all
    of its checks printed ✓ and no ✗.
    """
    marks = verdicts([check for checks in exercises.values() for check in checks])
    short = []
    count = 0
    for number, checks in exercises.items():
        solved = all(set(marks.get(check, "")) == {"✓"} for check in checks)
        print(f"exercise {number}: {'✓' if solved else 'open'}")
        short.append(f"{number}{'✓' if solved else '·'}")
        count += solved
    minutes = (time.monotonic() - began) / 60
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    done = f"{' '.join(short)} | {count}/{len(exercises)}"
    print(f"\n{lesson} | {done} | {machine()} | {minutes:.0f} min | {when}")
