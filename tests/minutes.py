"""How long tests take: build/minutes.json. By it the longest begin first, and growth is told.

It holds file → test → minutes of the last run in which the test passed. Where it is missing, as in
a fresh clone, the notebooks' kept outputs tell which lessons take long.
"""

import functools
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from course.files import write
from course.lesson import last_run

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "minutes.json"
# In these files each test is dear, and a worker gets it alone; of all others it gets the whole
# file, since its tests may share a fixture.
ALONE = {"test_notebooks.py", "test_answers.py", "test_mutants.py", "test_launch_faults.py"}
# These files share a site, which is a minute's work, and for which their workers would wait.
SITE = "tests/pages/test_site"
UNKNOWN = 5.0  # minutes: what nobody has timed begins early, so that nothing long comes last
Minutes = dict[str, dict[str, float]]


def read() -> Minutes:
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def unit(nodeid: str) -> str:
    """What a worker gets at a time: one test, or the tests of one file, or of some."""
    file = nodeid.partition("::")[0]
    if file.startswith(SITE):
        return SITE
    return nodeid if Path(file).name in ALONE else file


@functools.cache
def of_launches(lesson: str) -> float:
    """The minutes that a lesson's launches took in its last `make outputs`."""
    path = ROOT / "notebooks" / "solutions" / f"{lesson}.ipynb"
    return sum(last_run(json.loads(path.read_text())).get("seconds", [])) / 60


def forecast(item: pytest.Item) -> float:
    """Minutes that a test will take which nobody has timed."""
    lesson = getattr(item, "callspec", None) and item.callspec.params.get("lesson")
    return of_launches(Path(lesson).stem) if lesson else UNKNOWN


def longest_first(items: list[pytest.Item]) -> None:
    """Bring the tests into the order in which workers get them."""
    known = read()
    weights: dict[str, float] = {}
    for item in items:
        file, _, name = item.nodeid.partition("::")
        timed = known.get(file, {}).get(name)
        if timed is None and file in known and unit(item.nodeid) != item.nodeid:
            timed = 0  # a new test of a file that is known
        weight = forecast(item) if timed is None else timed
        weights[unit(item.nodeid)] = weights.get(unit(item.nodeid), 0) + weight
    items.sort(key=lambda item: -weights[unit(item.nodeid)])


def passed(reports: Iterable) -> Minutes:
    """The minutes of the tests that passed, of all that was reported."""
    minutes: Minutes = {}
    others = set()
    for report in reports:
        if not isinstance(report, pytest.TestReport):
            continue
        file, _, name = report.nodeid.partition("::")
        own = minutes.setdefault(file, {})
        own[name] = own.get(name, 0) + report.duration / 60
        if report.outcome != "passed":
            others.add((file, name))
    for file, name in others:
        del minutes[file][name]
    return {file: own for file, own in minutes.items() if own}


def grown(before: Minutes, now: Minutes) -> list[str]:
    """The files whose tests take a fifth longer than before, and half a minute at least."""
    lines = []
    for file, own in now.items():
        both = own.keys() & before.get(file, {}).keys()
        old = sum(before[file][name] for name in both)
        new = sum(own[name] for name in both)
        if new > max(old * 1.2, old + 0.5):
            lines.append(f"{old:5.1f} → {new:.1f} min  {file}")
    return lines


def keep(now: Minutes) -> None:
    """Write the minutes of these tests; the others keep theirs."""
    known = read()
    for file, own in now.items():
        rounded = {name: round(minutes, 3) for name, minutes in own.items()}
        known[file] = known.get(file, {}) | rounded
    there = {file: known[file] for file in sorted(known) if (ROOT / file).exists()}
    KEPT.parent.mkdir(exist_ok=True)
    write(KEPT, json.dumps(there, indent=1, ensure_ascii=False) + "\n")
