"""Lesson 09's ways to train beside the same steps worked out in one process, in float64."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from ranks import PROGRAMS, launch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import cifar10
import compress
import hooks
import shapes
from devices import Place
from loader import Pictures, augment, normalise
from model import ResNet

ALONE = Place(0, 0, 1, torch.device("cpu"), "gloo")
PICTURES = 83  # five batches of eight for each of two ranks; three are left out
TEST_SIZE = 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Generated pictures, and what each of two ranks left beside them."""
    folder = tmp_path_factory.mktemp("parts")
    (folder / "data").mkdir()
    torch.save(shapes.generate(PICTURES, TEST_SIZE), folder / "data" / "generated.pt")
    launch(folder, 2, str(PROGRAMS / "faster_parts.py"))
    return folder


@pytest.fixture(scope="module")
def two(folder) -> list[dict]:
    """What faster_parts.py computed on each rank."""
    return [torch.load(folder / f"parts.rank{rank}.pt") for rank in range(2)]


def weights(model: nn.Module) -> Tensor:
    return parameters_to_vector(model.parameters()).detach().clone()


def gradient(model: nn.Module) -> Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def near(ours: Tensor, right: Tensor, tolerance: float) -> bool:
    return bool((ours - right).norm() < tolerance * right.norm())


@pytest.mark.parametrize("way", ["every part", "no_sync"])
def test_parts_on_two_ranks_add_up_to_the_gradient_of_the_whole_batch(way, two) -> None:
    generators = [torch.Generator().manual_seed(1 + rank) for rank in range(2)]
    model = hooks.network(ALONE).double()
    for _ in range(2):
        rows = [torch.randn(64, 512, generator=generator) for generator in generators]
        model.zero_grad()
        model(torch.cat(rows).double()).square().mean().backward()
        right = gradient(model)
        vector_to_parameters(weights(model) - 0.01 * right, model.parameters())
    for rank in two:
        assert near(rank[way], right, 1e-3)


def test_our_own_ddp_takes_the_mean_gradient_from_the_weights_of_rank_0(two) -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)]
    model = nn.Sequential(*layers).double()
    generators = [torch.Generator().manual_seed(10 + rank) for rank in range(2)]
    for _ in range(2):
        model.zero_grad()
        for generator in generators:
            x = torch.randn(7, 6, dtype=torch.float64, generator=generator)
            (model(x).square().mean() / 2).backward()
        vector_to_parameters(weights(model) - 0.1 * gradient(model), model.parameters())
    for rank in two:
        assert near(rank["overlapped"], weights(model), 1e-12)


@pytest.fixture(scope="module")
def exact() -> nn.Module:
    """The network of compress.py, with the gradient of both ranks' rows."""
    x, y = compress.data(2 * compress.BATCH, ALONE)
    model = compress.network(ALONE, width=64).double()
    cross_entropy(model(x.double()), y).backward()
    return model


@pytest.mark.parametrize(("way", "tolerance"), [("fp16", 0.002), ("bf16", 0.02)])
def test_a_gradient_of_16_bits_is_the_mean_but_for_rounding(way, tolerance, two, exact) -> None:
    for rank in two:
        assert near(rank[way], gradient(exact), tolerance)


def test_what_powersgd_leaves_out_of_a_gradient_comes_with_later_ones(two, exact) -> None:
    """What two columns a matrix cannot carry is lost for ever, unless it is added next time."""
    lost = 0.0
    for parameter in exact.parameters():
        if parameter.dim() == 2:
            lost += torch.linalg.svdvals(parameter.grad)[2:].square().sum().item()
    for rank in two:
        assert (rank["PowerSGD"] - gradient(exact)).norm() < lost**0.5 / 2


def test_every_rank_and_step_of_the_comparison_has_rows_of_its_own() -> None:
    rows = list(range(5 * 3 * compress.BATCH))
    places = [ALONE._replace(rank=rank, world_size=3) for rank in range(3)]
    shares = [rows[compress.own_rows(number, place)] for place in places for number in range(5)]
    assert {len(share) for share in shares} == {compress.BATCH}
    assert sorted(row for share in shares for row in share) == rows


def test_local_sgd_averages_weights_that_were_trained_alone(two) -> None:
    begin = weights(compress.network(ALONE, width=64).double())
    x, y = compress.data(6 * 2 * compress.BATCH, ALONE)
    shares = x.double().split(compress.BATCH)
    labels = y.split(compress.BATCH)
    own = [begin, begin]
    speeds = [torch.zeros_like(begin), torch.zeros_like(begin)]
    model = compress.network(ALONE, width=64).double()
    for number in range(6):
        for rank in range(2):
            vector_to_parameters(own[rank], model.parameters())
            model.zero_grad()
            batch = 2 * number + rank
            cross_entropy(model(shares[batch]), labels[batch]).backward()
            speeds[rank] = 0.9 * speeds[rank] + gradient(model)
            own[rank] = own[rank] - 0.05 * speeds[rank]
        if number in (2, 5):
            own = [(own[0] + own[1]) / 2] * 2
    for rank in two:
        assert near(rank["local SGD"] - begin, own[0] - begin, 0.01)


@pytest.fixture(scope="module")
def pictures(folder) -> dict[str, Pictures]:
    """The pictures that the ranks had."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(cifar10, "ATTACHED", folder / "nothing attached")
        return {"train": Pictures(True), "test": Pictures(False)}


def seen(rank: int, train_set: Pictures) -> list[tuple[Tensor, Tensor]]:
    """A rank's batches in two epochs, shifted and mirrored with its own random numbers."""
    torch.manual_seed(1 + rank)
    batches = []
    for epoch in range(2):
        order = torch.randperm(PICTURES, generator=torch.Generator().manual_seed(epoch))
        for chosen in order[rank::2][:40].split(8):
            x = normalise(augment(train_set.x[chosen]))
            batches.append((x.double(), train_set.y[chosen]))
    return batches


@pytest.fixture(scope="module")
def by_hand(pictures) -> list[ResNet]:
    """The model of each rank after ten steps: the same weights, and statistics of its own."""
    torch.manual_seed(0)
    first = ResNet((8, 8, 8)).double()
    models = [first, copy.deepcopy(first)]
    batches = [seen(rank, pictures["train"]) for rank in range(2)]
    speed = torch.zeros_like(weights(first))
    for step in range(10):
        total = torch.zeros_like(speed)
        for model, own in zip(models, batches, strict=True):
            x, y = own[step]
            model.zero_grad()
            logs = model(x).log_softmax(1)
            loss = -0.9 * logs[torch.arange(8), y].mean() - 0.1 * logs.mean()
            loss.backward()
            total += gradient(model) / 2

        # Up to step 2, and down again: the learning rate, and momentum the other way round.
        lr = float(np.interp(step, [0, 2, 9], [0.1 / 25, 0.1, 0.1 / 25e4]))
        momentum = float(np.interp(step, [0, 2, 9], [0.95, 0.85, 0.95]))
        before = weights(first)
        total += 5e-4 * before
        speed = momentum * speed + total
        for model in models:
            vector_to_parameters(before - lr * (total + momentum * speed), model.parameters())
    return models


def model_of(rank: dict) -> ResNet:
    """The model that the recipe left on a rank."""
    model = ResNet((8, 8, 8)).double()
    model.load_state_dict({key: rank["recipe"][key] for key in model.state_dict()})
    return model


def test_the_recipe_takes_the_steps_that_are_worked_out_by_hand(two, by_hand) -> None:
    torch.manual_seed(0)
    begin = weights(ResNet((8, 8, 8)).double())
    right = weights(by_hand[0]) - begin
    for rank in two:
        assert near(weights(model_of(rank)) - begin, right, 0.01)


def statistics(model: ResNet) -> Tensor:
    """The running means and variances of its batch norms."""
    buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
    return torch.cat(buffers)


@torch.no_grad()
def test_the_recipe_is_tested_with_the_statistics_of_rank_0(two, by_hand, pictures) -> None:
    model = by_hand[0].eval()
    right_statistics = statistics(model)
    x = normalise(pictures["test"].x).double()
    scores = model(x) + model(x.flip(3))
    right = (scores.argmax(1) == pictures["test"].y).sum().item()
    for rank in two:
        assert near(statistics(model_of(rank)), right_statistics, 0.005)
        assert rank["recipe"]["accuracy"].item() == pytest.approx(right / TEST_SIZE, abs=0.011)
