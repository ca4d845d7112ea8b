"""What lesson 04 promises and its notebook does not run: copies of unusual models, a model split over three ranks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import rooms
from byhand import gather, parallel_apply, places, replicate, scatter

SPLIT = rooms.program("split")


class Tied(nn.Module):
    """One weight used twice, one frozen, and a buffer."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.frozen = (nn.Linear(6, 6) for _ in range(3))
        self.second.weight = self.first.weight
        self.frozen.requires_grad_(False)
        self.register_buffer("shift", torch.ones(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.frozen(torch.tanh(self.first(x) + self.shift)))


@pytest.mark.parametrize("copies", [1, 2, 3, 5])
def test_copies_give_the_gradients_of_the_plain_model(copies: int) -> None:
    torch.manual_seed(0)
    model, x, devices = Tied().double(), torch.randn(7, 6, dtype=torch.float64), places(copies)
    wanted = torch.autograd.grad(model(x).square().mean(), [p for p in model.parameters() if p.requires_grad])
    replicas = replicate(model, devices)
    gather(parallel_apply(replicas, scatter(x, devices)), devices[0]).square().mean().backward()
    torch.testing.assert_close([p.grad for p in model.parameters() if p.requires_grad], list(wanted))
    assert all(replica is not model and replica.first.weight is replica.second.weight for replica in replicas)


def test_the_first_copy_shares_memory_and_the_others_do_not() -> None:
    model = Tied()
    first, second = (replica.state_dict() for replica in replicate(model, places(2)))
    for name, tensor in model.state_dict().items():
        assert tensor.data_ptr() == first[name].data_ptr() != second[name].data_ptr()


def test_an_error_in_a_copy_is_raised() -> None:
    with pytest.raises(RuntimeError):
        parallel_apply([nn.Linear(3, 3), nn.Linear(4, 4)], [torch.ones(2, 3), torch.ones(2, 3)])


def test_three_ranks_can_share_a_model(tmp_path: Path) -> None:
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3", SPLIT, "--width=16"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([sys.executable, *command], cwd=tmp_path, env=environment, timeout=60, check=True)
    results = [json.loads(path.read_text()) for path in tmp_path.glob("split*.json")]
    assert len(results) == 3 and max(one["gap"] for one in results) < 1e-10
    assert sorted(len(one["sent"]) for one in results) == [1, 1, 2]  # the one in the middle sends both ways
