"""What every test needs: the lessons' programs can be imported; minutes per group and file.

The last line says that the tests on a real cluster did not run, where they were left out.
"""

import sys
from collections import Counter
from pathlib import Path, PurePosixPath

import pytest

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
# The programs of all rooms, as they lie side by side in a notebook's folder. The tools come from
# pytest's own `pythonpath` in pyproject.toml, which would have to name each room.
sys.path[:0] = [str(room) for room in sorted((SCRIPTS / "lessons").iterdir())]

LEFT_OUT = pytest.StashKey[bool]()  # whether all tests marked `cluster` were


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("cluster"):
            item.config.stash[LEFT_OUT] = True


def pytest_collection_finish(session: pytest.Session) -> None:
    if any(item.get_closest_marker("cluster") for item in session.items):
        session.config.stash[LEFT_OUT] = False  # some run


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A failure's last lines at once: a run that is ended from outside prints no summary."""
    if report.failed:
        print(f"\n{report.nodeid}, {report.when}:\n{report.longreprtext[-2000:]}", flush=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    """After pytest's own last line."""
    if config.stash.get(LEFT_OUT, False):
        print("cluster: not run (make cluster)")


def pytest_terminal_summary(terminalreporter) -> None:
    """Minutes of each group of tests and of each of its files, so that growth shows."""
    files = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            file = getattr(report, "nodeid", "").partition("::")[0]
            files[file] += getattr(report, "duration", 0)
    groups: dict[str, Counter] = {}
    for file, seconds in files.items():
        if seconds:
            path = PurePosixPath(file)
            groups.setdefault(path.parent.name, Counter())[path.name] += seconds

    for group, own in sorted(groups.items(), key=lambda item: -item[1].total()):
        terminalreporter.write_line(f"{own.total() / 60:5.1f} min  {group}")
        for file, seconds in own.most_common():
            terminalreporter.write_line(f"{seconds / 60:11.1f} min  {file}")
