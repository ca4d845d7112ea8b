"""ddp.py beside the same training worked out in one process, rank after rank, step by step."""

from pathlib import Path

import pytest
import torch
from ranks import launch
from torch.nn.functional import cross_entropy

import cifar10
import shapes
import single
from course import rooms
from devices import Place
from loader import Pictures, augment, normalise
from model import ResNet

PICTURES = 256
BATCH = 64  # of both ranks together
EPOCHS = 2
STEPS = EPOCHS * PICTURES // BATCH
TEST_SIZE = 101
LR = 0.2  # at its peak, as ddp.py has it when nobody says otherwise
OPTIONS = (
    f"--epochs {EPOCHS} --train-size {PICTURES} --test-size {TEST_SIZE} --global-batch-size {BATCH}"
)
ALONE = Place(0, 0, 1, torch.device("cpu"), "gloo")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Generated pictures, and what ddp.py left of its training on two ranks."""
    folder = tmp_path_factory.mktemp("ddp")
    (folder / "data").mkdir()
    torch.save(shapes.generate(PICTURES, TEST_SIZE), folder / "data" / "generated.pt")
    return folder


@pytest.fixture(scope="module")
def reports(folder) -> list[dict]:
    ended = launch(folder, 2, str(rooms.program("ddp")), *OPTIONS.split())
    return ended.reports("ddp", 2)


@pytest.fixture
def there(folder, monkeypatch) -> None:
    """This process finds the pictures of the launch."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(cifar10, "ATTACHED", folder / "nothing attached")


@pytest.fixture
def one_thread():
    """This process computes with one thread, as each rank does.

    Two threads add in another order. Training lets this difference of rounding grow: after seven
    steps the weight is off by 2 % of its way.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def shard(epoch: int, rank: int) -> torch.Tensor:
    """The pictures of a rank in an epoch: one order for both, of which each takes every second."""
    order = torch.Generator().manual_seed(epoch)
    return torch.randperm(PICTURES, generator=order)[rank::2]


def gradients(model: ResNet, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad()
    output = model(normalise(augment(x)))
    cross_entropy(output, y, label_smoothing=0.1).backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def by_hand() -> list[float]:
    """One weight before each step. Each rank has its pictures and its random numbers."""
    pictures = Pictures(True, PICTURES)
    torch.manual_seed(0)
    model = ResNet().to(memory_format=torch.channels_last)
    states = []
    for rank in range(2):
        torch.manual_seed(rank)
        states.append(torch.get_rng_state())

    optimizer = torch.optim.SGD(
        model.parameters(), LR, momentum=0.9, weight_decay=5e-4, nesterov=True
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR
    cycle = {"anneal_strategy": "linear", "cycle_momentum": False}
    scheduler = schedule(optimizer, LR, total_steps=STEPS, **cycle)
    weights = []
    for epoch in range(EPOCHS):
        for rank in range(2):  # a DataLoader draws one number when it begins
            torch.set_rng_state(states[rank])
            torch.empty((), dtype=torch.int64).random_()
            states[rank] = torch.get_rng_state()
        shards = [shard(epoch, rank).split(BATCH // 2) for rank in range(2)]
        for batches in zip(*shards, strict=True):
            weights.append(model.head.weight[0, 0].item())
            of_ranks = []
            for rank, batch in enumerate(batches):
                torch.set_rng_state(states[rank])
                of_ranks.append(gradients(model, pictures.x[batch], pictures.y[batch]))
                states[rank] = torch.get_rng_state()
            for parameter, first, second in zip(model.parameters(), *of_ranks, strict=True):
                parameter.grad = (first + second) / 2
            optimizer.step()
            scheduler.step()
    return weights


def test_ddp_takes_the_steps_that_are_worked_out_by_hand(reports, there, one_thread) -> None:
    expected = by_hand()
    assert len(set(expected)) == STEPS, "each step moves the weight"
    for report in reports:
        assert report["weights"] == expected, "before every step, to the last bit"


def test_what_ddp_saved_is_what_it_tested(reports, there) -> None:
    model = ResNet()
    model.load_state_dict(torch.load("ddp.pt", weights_only=True))
    scores = single.evaluate(model, Pictures(False, TEST_SIZE), ALONE)
    for report in reports:
        assert report["count"] == TEST_SIZE
        assert report["correct"] == scores["correct"]
        assert report["test_loss"] == pytest.approx(scores["test_loss"], abs=1e-5)
