"""What torch asks of a backend: one that can only add, and what it refuses.

Run:  python talk.py
      torchrun --standalone --nproc-per-node=2 talk.py --library smallest
"""

from argparse import ArgumentParser
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector

from devices import here, keep_group, report, start
from ownbackends import on_cpu, register
from tiny import loss_of, network, update
from yardstick import apart

LIMIT = timedelta(seconds=20)  # new_group's own would be 30 minutes


def attempt(call: Callable[[], object]) -> str:
    """What a call says when it fails; "" if it does not."""
    try:
        call()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return ""


def receive(group: dist.ProcessGroup, root: int, rank: int) -> tuple[str, list[float]]:
    """What a broadcast says when it fails, and the numbers that it leaves on this rank."""
    numbers = torch.full((4,), 10.0**rank)
    error = attempt(lambda: dist.broadcast(numbers, root, group=group))
    return error, numbers.tolist()


def train(group: dist.ProcessGroup, rank: int, steps: int) -> torch.Tensor:
    """The weights after some steps under DDP, as one row of numbers."""
    model = network()  # the same start on every rank, since nobody sends it
    ddp_model = DistributedDataParallel(model, process_group=group, init_sync=False)
    for step in range(steps):
        loss_of(ddp_model, step, rank).backward()
        update(model)
    return parameters_to_vector(model.parameters()).detach()


@record
def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default="smallest", help="which backend talks")
    args = parser.parse_args()
    names = {
        "small": register(args.library),
        "without a future": register("smallest", "mute", "create_without_future"),
    }
    place = on_cpu(here(), "gloo")
    start(place)
    gloo = dist.group.WORLD
    small = dist.new_group(backend=names["small"], timeout=LIMIT)
    mute = dist.new_group(backend=names["without a future"], timeout=LIMIT)
    keep_group(small)
    keep_group(mute)

    numbers = torch.full((4,), 10.0**place.rank)
    dist.all_reduce(numbers, group=small)
    one_step = train(small, place.rank, 1)
    gloo_step = train(gloo, place.rank, 1)
    untrained = parameters_to_vector(network().parameters())
    equal = apart(one_step, gloo_step, untrained) == 0
    model = network()
    refused = {
        "DDP": attempt(lambda: DistributedDataParallel(model, process_group=small)),
        "no future": attempt(lambda: train(mute, place.rank, 1)),
        "one step": attempt(lambda: train(small, place.rank, 1)),
    }

    received = []
    for root in range(place.world_size):
        refused["broadcast"], left = receive(small, root, place.rank)
        received.append(left)
    refused["two steps"] = attempt(lambda: train(small, place.rank, 2))
    if place.rank == 0:
        print(f"{names['small']}: the sum is {numbers.tolist()}")
    report(
        "talk",
        place,
        names=names,
        total=numbers.tolist(),
        received=received,
        refused=refused,
        equal=equal,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
