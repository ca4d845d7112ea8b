"""Lesson 17 where its notebook does not look.

Four ranks instead of two, the by-hand functions of the timed program, and heads that are cut.
"""

import math
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from ranks import SEVERAL, launch

import chain
import cuttable
from devices import Place


@pytest.fixture(scope="module")
def four(tmp_path_factory) -> list[list[dict]]:
    """What each of four ranks reported by hand, with a plan, and of the bytes."""
    folder = tmp_path_factory.mktemp("four")
    ended = launch(folder, 4, SEVERAL, "columnrow", "planned", "volume --texts 4 8")
    return [ended.reports(str(number), 4) for number in range(3)]


def test_by_hand_four_ranks_are_one_process(four):
    for rank in four[0]:
        assert max(rank["compared"]["with Copy"]["gaps"].values()) < 1e-12
        wrong = rank["compared"]["without Copy"]["gaps"]
        assert max(wrong["y"], wrong["dup"], wrong["ddown"]) < 1e-12
        assert wrong["dx"] > 0.7, "three of four parts are missing"
        assert 4 * rank["kept"] == rank["numbers"]
        trained = rank["trained"]
        assert trained["with Copy"]["apart"] < 1e-12
        assert trained["with Copy"]["losses"] == pytest.approx(trained["one process"]["losses"])


def test_a_plan_calls_as_many_collectives_with_one_head_a_rank(four):
    for rank in four[1]:
        calls = {name: run["calls"] for name, run in rank["plans"].items()}
        counts = {name: [len(each) for each in run.values()] for name, run in calls.items()}
        assert counts == {"plain": [4, 8], "prepared": [4, 4]}
        assert all(max(run["gap"], run["loss"]) < 1e-12 for run in rank["plans"].values())


def test_the_crossover_does_not_depend_on_the_number_of_ranks(four):
    for rank in four[2]:
        sent = rank["volumes"]
        per_token = sent["tensor parallel"][0] / rank["tokens"][0]
        assert math.isclose(sent["FSDP"][0] / per_token, 4.5 * rank["width"] + 1.5)
        assert sent["FSDP"][0] == sent["FSDP"][1] == 3 * 0.75 * rank["numbers"] * 4


@pytest.fixture
def alone() -> Iterator[Place]:
    """A process group of one rank."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield Place(0, 0, 1, torch.device("cpu"), "gloo")
    dist.destroy_process_group()


def test_a_block_that_is_not_cut_and_one_cut_for_one_rank_agree(alone: Place):
    """The functions that the timed program repeats, so that it can note when a rank waits."""
    torch.manual_seed(0)
    block = chain.Block(alone, 1)
    x = torch.randn(4, chain.WIDTH, requires_grad=True)
    block(x).square().sum().backward()
    expected = x.grad.clone()
    x.grad = None
    block.parts = 2  # with Copy and Sum, over a group of one
    block(x).square().sum().backward()
    torch.testing.assert_close(x.grad, expected)


def test_half_of_the_heads_are_the_first_or_the_last():
    """What each rank's part of query, key and value amounts to."""
    attention = cuttable.Attention(64, 4)
    x = torch.randn(2, 8, 64)
    whole = attention.split(x)
    parts = [attention.split(part) for part in x.chunk(2, dim=-1)]
    assert torch.equal(torch.cat(parts, dim=1), whole)
    assert [part.shape[1] for part in parts] == [2, 2]


def test_attention_is_that_of_each_text_alone():
    """And no token sees one that comes after it."""
    torch.manual_seed(0)
    attention = cuttable.Attention(64, 4)
    x = torch.randn(2, 8, 64)
    both = attention(x)
    torch.testing.assert_close(both[1:], attention(x[1:]))
    torch.testing.assert_close(both[:, :3], attention(x[:, :3]))
