"""Lesson 09 where its notebook does not look: what chance keeps, what is copied, who stays away."""

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from ranks import launch_all
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

import bucket
import budget
import wire
from devices import Place
from hooks import Overlapping
from many import Ring
from tune import CHANGES, pays
from wire import Wire

ONLY = Place(0, 0, 1, torch.device("cpu"), "gloo")

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


@pytest.fixture
def group():
    """A process group with this process as its only rank."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def rounds(effect: float, spread: float, rng: random.Random) -> list[float]:
    """Time with a change / time without, in 15 rounds; now and then something else disturbs one."""
    ratios = []
    for _ in range(15):
        sides = []
        for share in (1, effect):
            disturbed = rng.random() if rng.random() < 0.1 else 0.0
            sides.append(share * rng.lognormvariate(0, spread / 2**0.5) + disturbed)
        old, new = sides
        ratios.append(new / old)
    return ratios


@pytest.mark.parametrize("spread", [0.005, 0.05, 0.2])
def test_a_change_that_does_nothing_is_left_out(spread: float) -> None:
    rng = random.Random(1)
    kept = [pays(rounds(1, spread, rng)) for _ in range(4000)]
    assert sum(kept) / len(kept) < 0.03


def test_a_change_that_saves_a_tenth_is_kept_and_one_that_costs_a_tenth_is_not() -> None:
    rng = random.Random(2)
    saves = [pays(rounds(0.9, 0.05, rng)) for _ in range(1000)]
    costs = [pays(rounds(1.1, 0.05, rng)) for _ in range(1000)]
    assert sum(saves) / len(saves) > 0.85
    assert sum(costs) == 0


def test_the_usual_zero_grad_is_refused_by_our_own_ddp(group) -> None:
    model = Overlapping(nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    messages = []
    for empty in (model.zero_grad, optimizer.zero_grad):
        empty()
        try:
            model(torch.ones(1, 3)).sum().backward()
            model.finish()
        except AssertionError as error:
            messages.append(str(error))
    assert messages == ["a gradient is outside its bucket: call zero_grad() of the model"]


def copies(view: bool, none: bool) -> Counter:
    """What DDP copies in one step of eight parameters, by its own names in the profiler."""
    model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(4)])
    ddp_model = DistributedDataParallel(model, gradient_as_bucket_view=view)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad(set_to_none=none)
        ddp_model(torch.ones(1, 4)).sum().backward()
        optimizer.step()

    for _ in range(3):
        step()
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
        step()
    return Counter(event.name.rpartition("::")[2] for event in profiler.events())


def test_the_bucket_view_saves_one_copy_of_two(group) -> None:
    usual = copies(view=False, none=True)
    view = copies(view=True, none=True)
    kept = copies(view=True, none=False)
    assert (usual["mul_out"], usual["copy_bucket_to_grad"]) == (8, 8)
    assert (view["mul_out"], view["copy_bucket_to_grad"]) == (8, 0)
    assert (kept["mul_out"], kept["copy_bucket_to_grad"]) == (0, 0)
    assert kept["zero_"] - view["zero_"] == 8  # the price of it


@pytest.mark.parametrize(("fused", "asked"), [(None, 1), (True, 0)])
def test_the_scaler_asks_for_a_number_in_every_step_unless_it_is_fused(
    fused, asked, monkeypatch
) -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=fused)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(model(torch.ones(1, 3)).sum()).backward()
    calls = []
    item = torch.Tensor.item
    monkeypatch.setattr(torch.Tensor, "item", lambda self: calls.append(1) or item(self))
    scaler.step(optimizer)
    assert len(calls) == asked


def test_post_local_sgd_goes_on_averaging_inside_a_machine_by_default() -> None:
    assert PostLocalSGDState(None, None, 5).post_local_gradient_allreduce is True


@pytest.mark.parametrize(("options", "calls"), [(set(), 6), ({"whole batches"}, 1)])
def test_the_textbook_prepares_its_pictures_one_by_one(options, calls, group, monkeypatch) -> None:
    shifted = []
    augment = budget.augment
    monkeypatch.setattr(budget, "augment", lambda x: shifted.append(len(x)) or augment(x))
    budget.Training(options, 6, ONLY).batch()
    assert len(shifted) == calls and sum(shifted) == 6


def test_the_tuned_step_is_in_the_recipes_format_and_sends_no_buffers(group, monkeypatch) -> None:
    monkeypatch.setattr(budget, "best_dtype", lambda has: ("fp16", "a test wants a scaler"))
    tuned = budget.Training(set(CHANGES), 4, ONLY)
    textbook = budget.Training(set(), 4, ONLY)
    assert tuned.scaler.is_enabled() and not textbook.scaler.is_enabled()
    assert tuned.cast.fast_dtype == torch.float16 and not textbook.cast._enabled
    tuned.step()
    textbook.step()
    assert textbook.model.will_sync_module_buffers()
    assert not tuned.model.will_sync_module_buffers()


class Known:
    """A training whose phases take as long as they are told to."""

    def step(self, talk: bool) -> dict[str, float]:
        passes = {"forward": 3.0, "backward": 9.0} if talk else {"forward": 2.0, "backward": 5.0}
        return {"data": 1.0, **passes, "step": 0.5}


def test_communication_is_what_the_passes_take_longer_when_ranks_talk() -> None:
    right = {"data": 1.0, "forward": 2.0, "backward": 5.0, "communication": 5.0, "step": 0.5}
    assert budget.budget(Known(), steps=3) == right


def test_the_line_of_a_message_is_found_again() -> None:
    alpha, beta = bucket.fit([3e-4 + 2e-9 * size for size in bucket.SIZES])
    assert (alpha, beta) == (pytest.approx(3e-4), pytest.approx(2e-9))


class Done:
    """An all-reduce that is over."""

    def wait(self) -> None:
        pass


@pytest.fixture
def slept(monkeypatch) -> list[float]:
    """The seconds of each sleep of the wire, which takes no time here."""
    seconds: list[float] = []
    monkeypatch.setattr(wire.time, "sleep", seconds.append)
    return seconds


def test_a_message_takes_as_long_as_the_dials_say(slept) -> None:
    message = torch.ones(250_000)  # 8 million bits
    future = Wire(ONLY, gbit=2, latency=0.003).send(message, Done())
    assert future.wait()[0] is message
    assert sum(slept) == pytest.approx(0.003 + 0.004)


def test_the_wire_carries_one_message_at_a_time() -> None:
    slow = Wire(ONLY, latency=0.05)
    futures = [slow.send(torch.ones(1), Done()) for _ in range(3)]
    torch.futures.wait_all(futures)
    log = sorted(slow.log, key=lambda sent: sent["begin"])
    assert len(log) == 3
    assert all(late["begin"] >= early["end"] for early, late in pairwise(log))


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_a_ring_sleeps_twice_around_with_a_piece_in_each_round(ranks, slept) -> None:
    Ring(ranks, ONLY, gbit=1, latency=0.002).transmit(1_000_000)
    assert slept == pytest.approx([0.002 + 0.008 / ranks] * (2 * ranks - 2))


def test_two_messages_at_once_keep_their_own_answers() -> None:
    line = Wire(ONLY, latency=0.01)
    messages = [torch.full((2,), float(number)) for number in range(4)]
    futures = [line.send(message, Done()) for message in messages]
    answers = [future.wait()[0] for future in futures]
    assert [answer.tolist() for answer in answers] == [[n, n] for n in (0.0, 1.0, 2.0, 3.0)]
