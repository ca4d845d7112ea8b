"""What torch asks of a backend: one that can only add, and what it refuses.

Run:  python talk.py
      torchrun --standalone --nproc-per-node=2 talk.py
"""

from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import here, keep_group, report, start
from ownbackends import on_cpu, register
from yardstick import apart

LIMIT = timedelta(seconds=60)  # new_group's own would be 30 minutes


def attempt(call: Callable[[], object]) -> str:
    """What a call says when it fails; "" if it does not."""
    try:
        call()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return ""


def train(group: dist.ProcessGroup, rank: int, steps: int) -> torch.Tensor:
    """The weights after some steps on numbers of this rank's own, as one row."""
    torch.manual_seed(0)  # the same start on every rank, since nobody sends it
    model = nn.Sequential(nn.Linear(20, 50), nn.Tanh(), nn.Linear(50, 5))
    ddp_model = DistributedDataParallel(model, process_group=group, init_sync=False)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    torch.manual_seed(1 + rank)
    for _ in range(steps):
        optimizer.zero_grad()
        output = ddp_model(torch.randn(8, 20))
        loss = output.square().mean()
        loss.backward()
        optimizer.step()
    return nn.utils.parameters_to_vector(model.parameters()).detach()


@record
def main() -> None:
    names = {
        "smallest": register("smallest"),
        "without a future": register("smallest", "mute", "create_without_future"),
    }
    place = on_cpu(here(), "gloo")
    start(place)
    gloo = dist.group.WORLD
    groups = {}
    for way, name in names.items():
        groups[way] = dist.new_group(backend=name, timeout=LIMIT)
        keep_group(groups[way])
    smallest = groups["smallest"]
    mute = groups["without a future"]

    # Behind every device of a group there is a backend.
    behind = {}
    for way, group in {"gloo": gloo, **groups}.items():
        behind[way] = type(group._get_backend(place.device)).__name__

    numbers = torch.full((4,), 10.0**place.rank)
    dist.all_reduce(numbers, group=smallest)
    model = nn.Linear(2, 2)
    refused = {
        "broadcast": attempt(lambda: dist.broadcast(numbers, 0, group=smallest)),
        "DDP": attempt(lambda: DistributedDataParallel(model, process_group=smallest)),
        "no future": attempt(lambda: train(mute, place.rank, 1)),
        "one step": attempt(lambda: train(smallest, place.rank, 1)),
        "two steps": attempt(lambda: train(smallest, place.rank, 2)),
    }
    smallest_weights = train(smallest, place.rank, 1)
    gloo_weights = train(gloo, place.rank, 1)
    untrained = train(gloo, place.rank, 0)
    equal = apart(smallest_weights, gloo_weights, untrained) == 0
    if place.rank == 0:
        print(f"{names['smallest']}: the sum is {numbers.tolist()}")
    report(
        "talk",
        place,
        names=names,
        default=dist.Backend.default_device_backend_map,
        behind=behind,
        total=numbers.tolist(),
        refused=refused,
        equal=equal,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
