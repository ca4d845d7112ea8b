"""What all tests on real parts share: a mark and a folder, of which nothing is left at the end."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm import Cluster, slurm

from course.processes import Work, guarded

KEPT = Path(__file__).resolve().parents[3] / "build" / "cluster"


@pytest.fixture(scope="session")
def work() -> Iterator[Work]:
    """All that the tests start carries its mark, and ends with it."""
    with guarded("COURSE_CLUSTER", "cluster-") as work:
        yield work


@pytest.fixture(scope="session")
def cluster(work: Work) -> Iterator[Cluster]:
    """A Slurm with two idle nodes."""
    with slurm(work) as cluster:
        yield cluster


@pytest.fixture
def keep():
    """A function that keeps what was measured, as `build/cluster/NAME`, for those who quote it."""

    def write(name: str, found: str | dict | list) -> None:
        KEPT.mkdir(parents=True, exist_ok=True)
        text = found if isinstance(found, str) else json.dumps(found, indent=1)
        (KEPT / name).write_text(text)

    return write
