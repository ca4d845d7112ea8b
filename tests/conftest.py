"""What every test needs: the lessons' programs can be imported; who runs what, and for how long.

`-n auto` starts as many workers as cores and memory allow. Each gets the next test or file that is
left, the longest first (minutes.py). What was green and has not changed is left out (green.py). The
last line says that the tests on a real cluster did not run, where they were left out.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

TESTS = Path(__file__).parent
SCRIPTS = TESTS.parent / "scripts"
# The programs of all rooms, as they lie side by side in a notebook's folder. The tools come from
# pytest's own `pythonpath` in pyproject.toml, which would have to name each room.
sys.path[:0] = [str(room) for room in sorted((SCRIPTS / "lessons").iterdir())]

import green  # noqa: E402
import minutes  # noqa: E402

IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
CACHE = "TORCHINDUCTOR_CACHE_DIR"
CACHE_WAS_CHOSEN = CACHE in os.environ
WORKER_BYTES = 2.5e9  # of memory: a launch of two ranks, and the kernel that makes it


# ---- who runs what


class InTurn(LoadScopeScheduling):
    """A worker that is free gets the next unit, in the order of collection."""

    def _split_scope(self, nodeid: str) -> str:
        return minutes.unit(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> InTurn | None:
    if config.option.dist == "worksteal":  # `make check`, in which all tests are small
        return None
    config.option.loadscopereorder = False
    return InTurn(config, log)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    import psutil

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    free = psutil.virtual_memory().available
    workers = max(1, min(cores, int(free / WORKER_BYTES)))
    each = f"each may need {WORKER_BYTES / 1e9} GB"
    print(f"{workers} at a time: {cores} cores, {free / 1e9:.1f} GB of memory free, {each}")
    return workers


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if IS_WORKER:
        minutes.longest_first(items)


def pytest_collection_finish() -> None:
    """Lesson 07's speed.py, when it is imported, chooses a cache: in the folder of its notebook,
    which is not the one that we are in.
    """
    if not CACHE_WAS_CHOSEN:
        os.environ.pop(CACHE, None)


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """What a test sets is undone: a program that ran as one process leaves RANK and the like."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


# ---- what was green


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Ahead of all fixtures, which are dear."""
    made_of = green.made_of(item)
    if made_of and green.before(item.nodeid) == made_of:
        pytest.skip(green.SKIPPED)
    if made_of:
        item.user_properties.append((green.MADE_OF, made_of))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if IS_WORKER:
        return
    if report.failed:  # its last lines at once: a run that is ended from outside has no summary
        print(f"\n{report.nodeid}, {report.when}:\n{report.longreprtext[-2000:]}", flush=True)
        green.forget(report.nodeid)
    made_of = dict(report.user_properties).get(green.MADE_OF)
    if made_of and report.when == "call" and report.passed:
        green.remember(report.nodeid, made_of)


# ---- what a run tells at its end


def pytest_terminal_summary(terminalreporter) -> None:
    """What was left out, minutes of each group of tests and of the dearest files, and growth."""
    reports = [each for them in terminalreporter.stats.values() for each in them]
    left_out = green.left_out(reports)
    if left_out:
        terminalreporter.write_line(left_out)

    now = minutes.passed(reports)
    files = Counter({file: sum(own.values()) for file, own in now.items()})
    groups = Counter()
    for file, spent in files.items():
        groups[Path(file).parent.name] += spent
    told = [f"{spent:.1f} min {group}" for group, spent in groups.most_common()]
    terminalreporter.write_line(", ".join(told))
    for file, spent in files.most_common(10):
        terminalreporter.write_line(f"{spent:11.1f} min  {file}")
    for line in minutes.grown(minutes.read(), now):
        terminalreporter.write_line(f"grown: {line}")
    minutes.keep(now)


def pytest_unconfigure(config: pytest.Config) -> None:
    """After pytest's own last line."""
    cluster = TESTS / "campaigns" / "cluster"
    paths = [config.invocation_params.dir / each.partition("::")[0] for each in config.args]
    asked = any(cluster.is_relative_to(path) for path in paths)
    left_out = "not cluster" in config.option.markexpr
    if asked and left_out and not IS_WORKER:
        print("cluster: not run (make cluster)")
