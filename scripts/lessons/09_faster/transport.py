"""Gloo or nccl beside a transport of our own, at two sizes; and as the communication hook of DDP.

Run:  torchrun --standalone --nproc-per-node=2 transport.py
"""

import argparse
import os
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report, start
from shared import Shared, hook
from stopwatch import in_turns, verdict
from wire import gradients, network
from yardstick import apart

SIZES = [1, 25]  # MB of float32 numbers


def noise(mb: int, place: Place) -> Tensor:
    """Random numbers (N,), `mb` megabytes of them, other ones on every rank."""
    torch.manual_seed(place.rank)
    count = mb * 10**6 // 4
    numbers = torch.randn(count)
    return numbers.to(place.device)


def gap(shared: Shared, mb: int, place: Place) -> float:
    """How far the mean by our transport is from the mean by torch's all-reduce."""
    own = noise(mb, place)
    ours = own.clone()
    theirs = own.clone()
    shared.average(ours)
    dist.all_reduce(theirs)  # adds up, ours takes the mean
    mean = theirs / place.world_size
    return apart(ours, mean, own)


def race(shared: Shared, mb: int, rounds: int, place: Place) -> dict[str, list[float]]:
    """Seconds of torch's all-reduce and of our transport, round by round."""
    ours = noise(mb, place)
    theirs = torch.zeros_like(ours)  # other numbers would grow with each round
    assert ours.nbytes == theirs.nbytes == mb * 10**6

    # Several small messages in a row, or the barrier's end would count for more than they do.
    messages = SIZES[-1] // mb

    def send_theirs() -> None:
        for _ in range(messages):
            dist.all_reduce(theirs)

    def send_ours() -> None:
        for _ in range(messages):
            shared.average(ours)

    ways = {"theirs": send_theirs, "ours": send_ours}
    return in_turns(ways, rounds, place.device, settle=2, before=dist.barrier)


def train(model: nn.Module, inputs: list[Tensor]) -> list[Tensor]:
    """The gradients of the last step, after one step of plain SGD for each input."""
    for x in inputs:
        model.zero_grad()
        output = model(x)
        loss = output.square().mean()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
    return gradients(model)


def refusal(place: Place) -> str:
    """What our transport says where the ranks are on two machines; "" if it makes no objection."""
    other_size = str(place.world_size + 1)
    with patch.dict(os.environ, LOCAL_WORLD_SIZE=other_size):
        try:
            Shared(place)
        except RuntimeError as error:
            return str(error)
    return ""


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    start(place)
    shared = Shared(place)

    # A faster way counts only if its mean is the same.
    gaps = [gap(shared, mb, place) for mb in SIZES]
    seconds = {}
    for mb in SIZES:
        seconds[mb] = race(shared, mb, args.rounds, place)
        if place.rank == 0:
            compared = verdict(seconds[mb]["ours"], seconds[mb]["theirs"])
            print(f"{mb:2} MB: shared memory takes, beside {place.backend}, {compared}")

    # The same gradients under DDP, with torch's all-reduce and with ours?
    plain = DistributedDataParallel(network(place))
    hooked = DistributedDataParallel(network(place))
    hooked.register_comm_hook(shared, hook)
    alone = network(place)
    torch.manual_seed(place.rank)  # every rank has rows of its own
    inputs = [torch.randn(16, 512, device=place.device) for _ in range(3)]
    under_ddp = apart(train(hooked, inputs), train(plain, inputs), train(alone, inputs))

    numbers = {
        "seconds": seconds,
        "gap": max(gaps),
        "under DDP": under_ddp,
        "left": shared.file.exists(),
        "refused": refusal(place),
    }
    report("transport", place, **numbers)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
