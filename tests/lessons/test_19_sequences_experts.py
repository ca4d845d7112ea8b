"""Lesson 19 where its notebook does not look.

Three ranks in the ring, what it sends, experts that two and four ranks train as one does, and the
arithmetic of the plan on paper.
"""

import math
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from ranks import launch

import balance
import mixture
import onpaper
from course import rooms
from devices import Place

RING = f"{rooms.program('attention')} --positions 48 --layouts contiguous zigzag"


@pytest.fixture
def alone() -> Iterator[Place]:
    """A process group of one rank."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield Place(0, 0, 1, torch.device("cpu"), "gloo")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def three(tmp_path_factory) -> list[dict]:
    """What three ranks reported of the ring, with both layouts."""
    folder = tmp_path_factory.mktemp("three")
    reports = launch(folder, 3, *RING.split()).reports("attention", 3)
    return [report["runs"] for report in reports]


def test_three_ranks_compute_the_attention_of_one_process(three) -> None:
    for runs in three:
        for run in runs.values():
            assert all(each < 1e-12 for each in run["difference"].values())


def test_zigzag_gives_all_ranks_the_same_blocks_in_every_step(three) -> None:
    assert [sum(runs["contiguous"]["work"]) for runs in three] == [3, 7, 11]
    assert [runs["zigzag"]["work"] for runs in three] == [[3, 2, 2]] * 3
    assert sorted(chunk for runs in three for chunk in runs["zigzag"]["chunks"]) == list(range(6))


def test_the_ring_sends_what_the_exercise_says(three) -> None:
    part = 2 * (48 // 3) * 32 * 8
    for runs in three:
        for run in runs.values():
            assert run["forward"]["send"] == [2, 4 * part]
            assert run["backward"]["send"] == [5, 10 * part]


def test_a_token_gets_its_two_experts_each_by_its_gate() -> None:
    torch.manual_seed(0)
    layer = mixture.Dense(8, 4, 2).double()
    x = torch.randn(5, 8, dtype=torch.float64)
    probabilities = layer.router(x).softmax(-1)
    for token, row, out in zip(x, probabilities, layer(x), strict=True):
        first, second = row.argsort(descending=True)[:2].tolist()
        wanted = row[first] * layer.experts[first](token)
        wanted = wanted + row[second] * layer.experts[second](token)
        torch.testing.assert_close(out, wanted, rtol=1e-12, atol=1e-12)


def test_the_balance_loss_is_the_sum_of_shares_times_probabilities(monkeypatch) -> None:
    monkeypatch.setattr(balance.dist, "all_reduce", lambda tensor: None)
    monkeypatch.setattr(balance, "TOKENS", 4)
    probabilities = torch.tensor([[0.4, 0.3, 0.2, 0.1]] * 4, requires_grad=True)
    loss = balance.balance_loss(torch.tensor([2, 1, 1, 0]), probabilities)
    assert loss.item() == pytest.approx(4 * (0.5 * 0.4 + 0.25 * 0.3 + 0.25 * 0.2))
    loss.backward()
    assert probabilities.grad[0].tolist() == pytest.approx([0.5, 0.25, 0.25, 0])


def test_ranks_train_their_experts_as_one_process_does(tmp_path, alone: Place) -> None:
    command = [str(rooms.program("balance")), "--steps", "12"]
    runs = launch(tmp_path, 2, *command).reports("balance", 2)[0]["runs"]
    for name, weight in (("alone", 0.0), ("balanced", balance.WEIGHT)):
        wanted = balance.train(weight, 12, alone)
        assert runs[name]["losses"] == pytest.approx(wanted["losses"], rel=1e-4)
        assert runs[name]["loads"] == wanted["loads"]


def test_four_ranks_have_one_expert_each(tmp_path) -> None:
    reports = launch(tmp_path, 4, str(rooms.program("experts"))).reports("experts", 4)
    for top, rows in (("top-1", 256), ("top-2", 512)):
        assert sum(report["runs"][top]["rows"] for report in reports) == rows
        for report in reports:
            assert all(each < 1e-12 for each in report["runs"][top]["difference"].values())


def test_one_gpu_sends_nothing_and_keeps_everything() -> None:
    model = onpaper.Model(layers=2, width=8, vocabulary=10, positions=16, sequences=1)
    layer = 12 * 64
    root = 2 * 10 * 8
    paper = onpaper.plan(model, 1, 1, 1, 1)
    assert (paper["inside"], paper["between"], paper["bubble"]) == (0, 0, 0)
    # When backward of layer 0 ends: its input and all that it computed again.
    activations = 16 * 8 * 2 * (1 + 16)
    gathered = 2 * (root + layer)  # in 16 bits
    gradients = 2 * root + 4 * layer + (2 + 4) * layer  # layer 1 is done, layer 0 in both types
    kept = 12 * (2 * layer + root)  # parameters and Adam
    assert paper["memory"] * 1e9 == pytest.approx(kept + gathered + gradients + activations)


def test_each_way_on_paper_sends_what_the_map_says() -> None:
    model = onpaper.Model(layers=4, width=8, vocabulary=10, positions=16, sequences=4)
    tokens = 16 * 8 * 2 * 4  # bytes of all of them
    layer = 12 * 64 * 2
    tensor = onpaper.plan(model, 2, 1, 1, 1)
    assert tensor["inside"] * 1e9 == pytest.approx(6 * tokens * 4)  # a forward more than the map
    data = onpaper.plan(model, 1, 1, 1, 4)
    assert data["between"] * 1e9 == pytest.approx(3 * 3 / 4 * layer * 4)
    ring = onpaper.plan(model, 1, 2, 1, 1)
    assert ring["between"] * 1e9 == pytest.approx(5 * tokens * 4 + 3 / 2 * layer * 4 * 4)
    pipeline = onpaper.plan(model, 1, 1, 2, 1)
    assert pipeline["between"] * 1e9 == pytest.approx(2 * tokens)
    assert math.isclose(pipeline["bubble"], 1 / 5)
