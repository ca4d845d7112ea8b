"""What lesson 04 promises and its notebook does not run.

Copies of unusual models, and a model that is split over three ranks.
"""

from pathlib import Path

import pytest
import torch
from ranks import launch
from torch import nn

import rooms
from byhand import gather, parallel_apply, places, replicate, scatter


class Tied(nn.Module):
    """One weight used twice, one frozen, and a buffer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6)
        self.frozen = nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.frozen.requires_grad_(False)
        self.register_buffer("shift", torch.ones(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.frozen(torch.tanh(self.first(x) + self.shift)))


@pytest.mark.parametrize("copies", [1, 2, 3, 5])
def test_copies_give_the_gradients_of_the_plain_model(copies: int) -> None:
    torch.manual_seed(0)
    model = Tied().double()
    x = torch.randn(7, 6, dtype=torch.float64)
    devices = places(copies)
    learning = [p for p in model.parameters() if p.requires_grad]
    wanted = torch.autograd.grad(model(x).square().mean(), learning)

    replicas = replicate(model, devices)
    outputs = parallel_apply(replicas, scatter(x, devices))
    gather(outputs, devices[0]).square().mean().backward()
    torch.testing.assert_close([p.grad for p in learning], list(wanted))
    for replica in replicas:
        assert replica is not model
        assert replica.first.weight is replica.second.weight


def test_the_first_copy_shares_memory_and_the_others_do_not() -> None:
    model = Tied()
    replicas = replicate(model, places(2))
    first = replicas[0].state_dict()
    second = replicas[1].state_dict()
    for name, tensor in model.state_dict().items():
        assert tensor.data_ptr() == first[name].data_ptr() != second[name].data_ptr()


def test_an_error_in_a_copy_is_raised() -> None:
    with pytest.raises(RuntimeError):
        parallel_apply([nn.Linear(3, 3), nn.Linear(4, 4)], [torch.ones(2, 3), torch.ones(2, 3)])


def test_three_ranks_can_share_a_model(tmp_path: Path) -> None:
    ended = launch(tmp_path, 3, str(rooms.program("split")), "--width=16")
    reports = ended.reports("split", 3)
    assert max(report["gap"] for report in reports) < 1e-10
    messages = [len(report["sent"]) for report in reports]
    assert messages == [1, 2, 1], "the one in the middle sends both ways"
