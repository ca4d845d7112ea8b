"""What lesson 04 promises and its notebook does not run.

Copies of unusual models, a model that is split over three ranks, and the training to copy.
"""

import re
import runpy
from functools import partial
from pathlib import Path

import adam
import pytest
import torch
from ranks import launch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from byhand import gather, parallel_apply, places, replicate, scatter
from course import rooms


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
    assert max(report["gap"] for report in reports) < 1e-12
    messages = [len(report["sent"]) for report in reports]
    assert messages == [1, 2, 1], "the one in the middle sends both ways"


def circle_loss(x: Tensor, y: Tensor, network: nn.Module) -> Tensor:
    return nn.functional.cross_entropy(network(x.double()), y)


@pytest.mark.parametrize("gpus", [0, 2])
def test_the_training_to_copy_is_one_of_adam(gpus, tmp_path, monkeypatch, capsys) -> None:
    """Alone, and in the wrapper, which without a GPU passes calls on: the file is the same."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    ran = runpy.run_path(str(rooms.program("dptrain")))
    assert isinstance(ran["model"], nn.DataParallel) == (gpus > 1)

    torch.manual_seed(0)
    points = 2 * torch.rand(4096, 2) - 1
    inside = (points.square().sum(1) < 0.64).long()
    network = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 2))
    loader = DataLoader(TensorDataset(points, inside), 64, shuffle=True)
    batches = [batch for _ in range(3) for batch in loader]
    losses = [partial(circle_loss, x, y) for x, y in batches]
    told = torch.tensor(adam.train(network.double(), losses, rate=0.01))
    assert adam.distance(torch.load("dptrain.pt"), network) < 1e-3
    printed = [
        float(number) for number in re.findall(r"mean loss ([\d.]+)", capsys.readouterr().out)
    ]
    assert printed == pytest.approx(told.view(3, 64).mean(1).tolist(), abs=1e-3)
