"""Ranks with 2, 4, 6 … batches under Join: what do the finished ones do? What is the average?

Run:  python join.py
      torchrun --standalone --nproc-per-node=3 join.py
"""

import os
from collections.abc import Callable

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else the profiler reports on itself, and on GPUs

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.join import Join
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

from devices import Place, here, report, start


class Weight(nn.Module):
    """One weight w, and the loss w·x: so the gradient of a batch is its number x."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.w * x


def collectives(call: Callable[[], object]) -> int:
    """How many collectives this rank takes part in while `call` runs."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        call()
    names = [event.name for event in profiler.events()]
    return sum(name.startswith("c10d::") for name in names)


def brought(place: Place) -> Tensor:
    """What a rank brings, one number a batch.

    Rank 0: 1 and 2; rank 1: 10, 20, 30 and 40; rank 2: 100, 200, 300, 400, 500 and 600; …
    """
    batches = 2 * (place.rank + 1)
    numbers = torch.arange(1, batches + 1, dtype=torch.float64, device=place.device)
    return 10**place.rank * numbers


def train(place: Place, numbers: Tensor, **settings) -> dict[str, object]:
    """Train under Join with these settings, one step for each of this rank's numbers.

    Returns the gradient and the weight after each step of this rank, and the weight in the end,
    when all have joined.
    """
    model = Weight().to(place.device)
    ddp_model = DistributedDataParallel(model)
    gradients = []
    weights = []
    with Join([ddp_model], **settings):
        for x in numbers:
            model.zero_grad()
            loss = ddp_model(x)
            loss.backward()
            gradient = model.w.grad
            with torch.no_grad():
                model.w -= 0.01 * gradient
            gradients.append(gradient.item())
            weights.append(model.w.item())
    end = model.w.item()
    return {"gradients": gradients, "weights": weights, "end": end}


def complaint(place: Place) -> str:
    """What this rank's error says if Join must stop all as soon as one has no batch left."""
    numbers = brought(place)
    try:
        train(place, numbers, throw_on_early_termination=True)
    except RuntimeError as error:
        return str(error)
    return "nothing"


def price(place: Place, enable: bool) -> int:
    """Collectives in a step when all ranks have equally many batches, with Join or without it."""
    three = torch.ones(3)
    four = torch.ones(4)
    short = collectives(lambda: train(place, three, enable=enable))
    long = collectives(lambda: train(place, four, enable=enable))
    return long - short


@record
def main() -> None:
    place = here()
    start(place)

    # DDP divides the sum by the number of all ranks, or of those that still bring something.
    numbers = brought(place)
    whole = train(place, numbers)
    active = train(place, numbers, divide_by_initial_world_size=False)
    # The finished ranks go on answering: all take part in equally many collectives.
    count = collectives(lambda: train(place, numbers))
    message = complaint(place)
    # Where Join is not needed: what would it cost?
    prices = {}
    prices["without"] = price(place, enable=False)
    prices["with"] = price(place, enable=True)

    steps = f"{len(numbers)} steps, {count} collectives"
    weight = whole["end"]
    print(f"rank {place.rank}: {steps}, weight in the end {weight:.3f}\n", end="")
    runs = {"brought": numbers.tolist(), "whole": whole, "active": active}
    report("join", place, **runs, collectives=count, told=message, prices=prices)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
