"""Ranks with 2, 4, 6 … batches under Join: what do the finished ones do, and what becomes of the average?

Run:  python join.py
      torchrun --standalone --nproc-per-node=3 join.py
"""

import argparse
import os
from collections.abc import Callable
from datetime import timedelta

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else the profiler reports on itself, and that there is no GPU

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.join import Join
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

from devices import Place, here, report


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
    return sum(event.name.startswith("c10d::") for event in profiler.events())


def numbers(place: Place) -> Tensor:
    """What a rank brings, one number a batch. Rank 0: 1 and 2; rank 1: 10 to 40; rank 2: 100 to 600; …"""
    return 10**place.rank * torch.arange(1, 2 * place.rank + 3, dtype=torch.float64, device=place.device)


def train(place: Place, **settings) -> dict[str, object]:
    """The gradient and the weight after each step of this rank; the weight in the end, when all have joined."""
    model = Weight().to(place.device)
    ddp_model, gradients, weights = DistributedDataParallel(model), [], []
    with Join([ddp_model], **settings):
        for x in numbers(place):
            model.zero_grad()
            loss = ddp_model(x)
            loss.backward()
            with torch.no_grad():
                model.w -= 0.01 * model.w.grad
            gradients.append(model.w.grad.item())
            weights.append(model.w.item())
    return {"gradients": gradients, "weights": weights, "end": model.w.item()}


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timeout", type=float, default=60)
    args, place = parser.parse_args(), here()
    dist.init_process_group(place.backend, timeout=timedelta(seconds=args.timeout))

    whole, active = train(place), train(place, divide_by_initial_world_size=False)
    count = collectives(lambda: train(place))
    told = "nothing"
    try:
        train(place, throw_on_early_termination=True)
    except RuntimeError as error:
        told = str(error)
    mine = numbers(place).tolist()
    print(f"rank {place.rank}: {len(mine)} steps, {count} collectives, weight in the end {whole['end']:.3f}\n", end="")
    report("join", place, brought=mine, whole=whole, active=active, collectives=count, told=told)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
