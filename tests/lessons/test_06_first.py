"""first.py, the smallest DDP: portable, exact on two ranks and alone; and what lacks a place."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from ranks import PROGRAMS, launch
from torch import nn

from course import rooms
from course.build.programs import length
from course.build.python import imports

FIRST = rooms.program("first")
SEEDED = PROGRAMS / "seeded.py"
EPOCHS = 30
LINE = r"rank {}, epoch \d+: (\d+) steps, last point (\S+), loss (\S+), a weight (\S+)"


def worked_out(ranks: int) -> dict[str, torch.Tensor]:
    """The weights of one process after the same batches, each of which is whole, in float64."""
    points = torch.linspace(-3, 3, 256, dtype=torch.float64).unsqueeze(1)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(1, 32, dtype=torch.float64), nn.Tanh(), nn.Linear(32, 1, dtype=torch.float64)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(EPOCHS):
        order = torch.randperm(256, generator=torch.Generator().manual_seed(epoch))
        parts = [order[rank::ranks].split(32 // ranks) for rank in range(ranks)]
        for batches in zip(*parts, strict=True):
            x = points[torch.cat(batches)]
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), x.sin()).backward()
            optimizer.step()
    return model.state_dict()


def columns(text: str, rank: int) -> list[tuple[str, ...]]:
    """Steps, last points, losses and weights that a rank printed."""
    return list(zip(*re.findall(LINE.format(rank), text), strict=True))


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return launch(tmp_path_factory.mktemp("first"), 2, str(SEEDED), str(FIRST))


def check_saved(folder: Path, ranks: int) -> None:
    saved = torch.load(folder / "first.pt", weights_only=True)
    expected = worked_out(ranks)
    assert list(saved) == list(expected), "no `module.` in the names"
    for name, weights in expected.items():
        assert (saved[name] - weights).abs().max() < 1e-9


def test_two_ranks_are_one_process_on_whole_batches(two) -> None:
    assert two.code == 0, two.text
    check_saved(two.folder, 2)
    assert re.findall(r"saved by rank (\d)", two.text) == ["0"]


def test_what_is_printed_tells_one_model_and_two_shares(two) -> None:
    steps, points, losses, weights = columns(two.text, 0)
    other_steps, other_points, other_losses, other_weights = columns(two.text, 1)
    assert steps == other_steps == ("8", "8", "8")
    assert weights == other_weights and len(set(weights)) == 3
    assert losses != other_losses
    assert not set(points) & set(other_points)
    assert len(set(points)) == len(set(other_points)) == 3


def test_it_runs_alone_without_torchrun(tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, SEEDED, FIRST],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert len(columns(done.stdout, 0)[0]) == 3
    check_saved(tmp_path, 1)


def test_on_a_second_machine_it_takes_the_gpu_of_its_local_rank(monkeypatch) -> None:
    """Places 1 and 2, with GPUs that are only pretended: rank 3 there has local rank 1."""
    here = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
    for name, value in here.items():
        monkeypatch.setenv(name, value)
    asked = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: asked.append(("device", device)))
    monkeypatch.setattr(dist, "init_process_group", lambda *of, **more: asked.append((of, more)))
    begin = FIRST.read_text().partition("rank = dist.get_rank()")[0]
    exec(compile(begin, "first.py", "exec"), {})
    gpu = torch.device("cuda:1")
    assert asked == [("device", gpu), (("nccl",), {"device_id": gpu})], "in this order"


def test_it_imports_what_would_keep_the_group_and_leaves_the_group(two) -> None:
    lines = FIRST.read_text().splitlines()
    [imported] = [
        number for number, line in enumerate(lines) if "distributed.nn.functional" in line
    ]
    assert imported < min(number for number, line in enumerate(lines) if "init_process" in line)
    assert lines[-1].startswith("dist.destroy_process_group()")
    assert two.code == 0


def test_it_can_be_copied_anywhere() -> None:
    text = FIRST.read_text()
    ours = {path.stem for path in rooms.programs()}
    assert not imports(ast.parse(text)) & ours
    assert length(text, FIRST.name) <= 40
    numbers = re.findall(r"# (\d)\. [a-z]", text)
    assert numbers == list("1234567"), "in the order of the table"


def test_each_missing_place_shows_in_its_own_column(tmp_path) -> None:
    (tmp_path / "first.py").write_text(FIRST.read_text())
    ended = launch(tmp_path, 2, str(rooms.program("without")))
    assert ended.code == 0, ended.text
    missing = ended.reports("without", 2)[0]["missing"]
    assert sorted(missing.values()) == [3, 4, 5]
    for name, place in missing.items():
        text = "\n".join(re.findall(f"^{name}: (.*)", ended.text, re.MULTILINE))
        steps, points, _, weights = columns(text, 0)
        other_steps, _, _, other_weights = columns(text, 1)
        assert len(points) == 3, "no line is cut"
        assert steps == other_steps
        assert (set(steps) == {"16"}) == (place == 3)
        assert (weights == other_weights) == (place != 4)
        assert (len(set(points)) == 1) == (place == 5)
