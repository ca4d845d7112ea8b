"""What one_gpu.py changes is still in the notebooks."""

import nbformat
import pytest
from one_gpu import ALWAYS, ROOT, shared
from test_committed import COMMITTED

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_each_notebook_writes_the_rule_once(path) -> None:
    counts = shared(nbformat.read(path, as_version=4))
    assert counts[:ALWAYS] == [1, 1]


def test_every_change_is_made_in_some_notebook() -> None:
    totals = [shared(nbformat.read(path, as_version=4)) for path in COMMITTED]
    assert all(sum(counts) for counts in zip(*totals, strict=True))
    text = (ROOT / "notebooks" / "solutions" / "06_ddp.ipynb").read_text()
    assert "if torch.cuda.device_count() >= 2:  # a GPU for each" in text
