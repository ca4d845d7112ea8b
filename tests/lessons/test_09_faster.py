"""Lesson 09 where its notebook does not look: a rank that stays away from the shared memory."""

from pathlib import Path

from ranks import launch_all

ALONE = """
import time

import torch
import torch.distributed as dist

from devices import here
from shared import Shared

place = here()._replace(device=torch.device("cpu"))
dist.init_process_group("gloo")
shared = Shared(place, timeout=2)
shared.average(torch.ones(3))
if place.rank:
    time.sleep(30)
shared.average(torch.ones(3))
"""


def test_a_rank_that_stays_away_is_waited_for_in_vain_and_no_memory_is_left(tmp_path: Path) -> None:
    (tmp_path / "alone.py").write_text(ALONE)
    memory = Path("/dev/shm")
    before = set(memory.glob("shared-*"))
    [ended] = launch_all({tmp_path: (2, ["alone.py"])}, seconds=60)
    assert ended.code == 1
    assert "rank 0 waited 2 s at turn 2 of shared memory" in ended.text
    assert set(memory.glob("shared-*")) <= before
