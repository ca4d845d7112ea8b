"""Lesson 20 where its notebook does not look.

Three trainers and a server that is DDP, how old gradients are, and batches of requests: the pieces
of the servers by themselves, in one worker.
"""

import os
from collections.abc import Iterator

import pytest
import torch
import torch.distributed.rpc as rpc
from ranks import launch

import batching
import delayed
import devices
import price
import weights
import workers
from course import rooms

pytestmark = pytest.mark.filterwarnings("ignore:You are using a Backend")


@pytest.fixture(scope="module")
def alone() -> Iterator[str]:
    """The name of the only worker, which calls itself."""
    before = dict(os.environ)
    for name in devices.ALONE:
        os.environ.pop(name, None)
    threads = torch.get_num_threads()
    workers.join(devices.here())
    yield "worker0"
    rpc.shutdown()
    torch.set_num_threads(threads)
    os.environ.clear()
    os.environ.update(before)


def gradients_of(server: weights.Server, step: int, trainer: int, trainers: int) -> list:
    loss = weights.loss_of(server.model, step, trainer, trainers)
    return list(torch.autograd.grad(loss, list(server.model.parameters())))


def test_the_synchronous_server_is_ddp(tmp_path) -> None:
    # Four ranks: with three trainers the order of a sum may cost the last digits.
    options = ["--steps", "12", "--pause", "0.005"]
    program = str(rooms.program("paramserver"))
    told = launch(tmp_path, 4, program, *options).reports("paramserver", 4)[0]
    assert told["gap"] <= 1e-12
    assert told["synchronous"]["updates"] == 12
    assert [age for _, age in told["synchronous"]["pushes"]] == 36 * [0]
    assert len(told["asynchronous"]["pushes"]) == told["asynchronous"]["updates"]


def test_two_trainers_together_take_the_steps_of_one(alone) -> None:
    server = weights.Server(trainers=2)
    rref = rpc.RRef(server)
    whole = weights.network()
    optimizer = torch.optim.SGD(whole.parameters(), weights.LR)
    for step in range(3):
        calls = []
        for trainer in (0, 1):
            gradients = gradients_of(server, step, trainer, 2)
            calls.append((rref, trainer, server.version, gradients))
        futures = [rpc.rpc_async(alone, weights.Server.push_together, call) for call in calls]
        answers = torch.futures.wait_all(futures)
        assert [version for version, _ in answers] == 2 * [step + 1]
        optimizer.zero_grad()
        weights.loss_of(whole, step, 0, 1).backward()
        optimizer.step()
        for own, right in zip(answers[0][1], whole.parameters(), strict=True):
            assert torch.allclose(own, right, rtol=1e-12, atol=1e-14)


def test_trainers_share_each_batch() -> None:
    model = weights.network()
    halves = [weights.loss_of(model, 5, trainer, 2).item() for trainer in (0, 1)]
    assert halves[0] != halves[1]
    assert sum(halves) / 2 == pytest.approx(weights.loss_of(model, 5, 0, 1).item(), rel=1e-12)


def test_a_server_counts_how_old_gradients_are() -> None:
    server = weights.Server(trainers=2)
    versions = {0: 0, 1: 0}
    answers = []
    for step, trainer in enumerate([0, 1, 1, 0]):
        gradients = gradients_of(server, step, trainer, 2)
        versions[trainer], given = server.push(trainer, versions[trainer], gradients)
        answers.append((given, [weight.clone() for weight in given]))
    # What a trainer was given is not changed by later updates.
    for given, then in answers:
        assert all(torch.equal(*pair) for pair in zip(given, then, strict=True))
    assert server.pushes == [(0, 0), (1, 1), (1, 0), (0, 2)]
    assert versions == {0: 4, 1: 3}


def test_gradients_are_k_versions_old() -> None:
    losses = {k: delayed.train(k, 0.5, seeds=2, steps=6)[0] for k in (0, 2, 3)}
    unmoved = delayed.train(9, 0.5, seeds=2, steps=6)[0]  # nothing is applied within six steps
    for k in (0, 2, 3):
        assert torch.equal(losses[k][: k + 1], unmoved[: k + 1])
        assert not torch.equal(losses[k][k + 1], unmoved[k + 1])
    # What is applied first is the gradient of the first batch, whatever the delay.
    first = delayed.train(0, 2.0, seeds=2, steps=1)[1]
    for k in (2, 5):
        assert torch.equal(delayed.train(k, 2.0, seeds=2, steps=k + 1)[1], first)


def test_fresh_gradients_go_downhill() -> None:
    losses, right = delayed.train(0, 0.5, seeds=2, steps=100)
    assert (losses[-20:].mean(0) < losses[:20].mean(0)).all()
    assert (right > 1 / delayed.CLASSES).all()


def test_all_bytes_come_back() -> None:
    """Otherwise the price of a call would be that of one way."""
    message = torch.arange(9, dtype=torch.uint8)
    assert torch.equal(price.echo(message), message)


def test_a_batch_is_answered_by_one_forward_pass(alone) -> None:
    rows = torch.randn(6, 512, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        right = batching.network(16)(rows)
    told = batching.asked(alone, rows, 16, 3)
    assert told["forwards"] == 2
    assert torch.allclose(told["answers"], right, atol=1e-5)


def test_an_alarm_answers_what_is_there_and_nothing_else(alone) -> None:
    rows = torch.randn(7, 512, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        right = batching.network(16)(rows)
    told = batching.asked(alone, rows, 16, 3, 0.2)
    assert told["forwards"] == 3  # 3, 3, and the last one by itself
    assert torch.allclose(told["answers"], right, atol=1e-5)
