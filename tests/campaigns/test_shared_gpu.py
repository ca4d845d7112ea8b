"""What course.evidence.shared changes is still in the notebooks."""

from pathlib import Path

import nbformat
import pytest
from test_committed import COMMITTED

from course.evidence.shared import ALWAYS, nccl_version, share_gpu


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_each_notebook_writes_the_rule_once(path: Path) -> None:
    counts = share_gpu(nbformat.read(path, as_version=4))
    assert counts[:ALWAYS] == [1, 1]


def test_every_change_is_made_in_some_notebook() -> None:
    totals = [share_gpu(nbformat.read(path, as_version=4)) for path in COMMITTED]
    assert all(sum(counts) for counts in zip(*totals, strict=True))


def test_the_version_is_that_of_the_library() -> None:
    """Torch's CUDA builds bring one, also where there is no GPU."""
    assert (2, 20) < nccl_version() < (4,)
