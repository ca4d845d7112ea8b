"""What every test needs: the lessons' programs can be imported; minutes per group and file.

The last line says that the tests on a real cluster did not run, where they were left out.
"""

import os
import sys
from collections import Counter
from pathlib import Path, PurePosixPath

import pytest
from xdist.scheduler import LoadScopeScheduling

TESTS = Path(__file__).parent
SCRIPTS = TESTS.parent / "scripts"
# The programs of all rooms, as they lie side by side in a notebook's folder. The tools come from
# pytest's own `pythonpath` in pyproject.toml, which would have to name each room.
sys.path[:0] = [str(room) for room in sorted((SCRIPTS / "lessons").iterdir())]

ANSWERS = "tests/lessons/test_answers.py"
LAUNCHING = ("tests/campaigns/", "tests/lessons/")


class Shares(LoadScopeScheduling):
    """For the two workers of `make test`: one launches ranks nearly all the time.

    The other one judges answers, which launches some, and then has what is mostly a single process.
    Each share has its fixtures, such as the site, for itself, and is given out in this order.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(ANSWERS):
            return "answers"
        return "launching" if nodeid.startswith(LAUNCHING) else "single"


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Shares | None:
    if config.option.dist == "worksteal":  # `make check`, in which all tests are small
        return None
    config.option.loadscopereorder = False  # in the order of collection, not by number of tests
    return Shares(config, log)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A failure's last lines at once: a run that is ended from outside prints no summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\n{report.nodeid}, {report.when}:\n{report.longreprtext[-2000:]}", flush=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    """After pytest's own last line."""
    cluster = TESTS / "campaigns" / "cluster"
    paths = [config.invocation_params.dir / each.partition("::")[0] for each in config.args]
    asked = any(cluster.is_relative_to(path) for path in paths)
    left_out = "not cluster" in config.option.markexpr
    if asked and left_out and not hasattr(config, "workerinput"):  # which a worker has
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
