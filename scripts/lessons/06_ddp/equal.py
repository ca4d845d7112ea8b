"""Is DDP on parts of a batch the same as one process on the whole? Five steps of each, compared.

Run:  torchrun --standalone --nproc-per-node=2 equal.py
      torchrun --standalone --nproc-per-node=2 equal.py --cases none batch
"""

import argparse
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector

from devices import Place, here, report
from yardstick import apart


class Case(NamedTuple):
    norm: Callable[[], nn.Module]  # makes the layer that normalises
    first: int  # pictures of a step that rank 0 takes
    others: int  # pictures of a step that each of the other ranks takes


CASES = {
    "group": Case(lambda: nn.GroupNorm(4, 8), first=12, others=12),
    "none": Case(nn.Identity, first=12, others=12),
    "batch": Case(lambda: nn.BatchNorm2d(8), first=12, others=12),
    "uneven": Case(lambda: nn.GroupNorm(4, 8), first=17, others=7),
}


class Network(nn.Module):
    """x (N, 3, 8, 8) → (N, 10). `second` may have the weight of `first`; `frozen` never learns."""

    def __init__(self, norm: nn.Module, tied: bool):
        super().__init__()
        self.frozen = nn.Conv2d(3, 8, 3).requires_grad_(False)
        self.first = nn.Conv2d(8, 8, 3)
        self.second = nn.Conv2d(8, 8, 3)
        if tied:
            self.second.weight = self.first.weight
        self.norm = norm
        self.head = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.frozen(x).relu()
        x = self.first(x)
        x = self.norm(x).relu()
        x = self.second(x)
        x = x.mean((2, 3))
        return self.head(x)


def part_of(rank: int, case: Case) -> slice:
    """The pictures of a step that a rank takes."""
    if rank == 0:
        return slice(0, case.first)
    begin = case.first + case.others * (rank - 1)
    return slice(begin, begin + case.others)


def backward(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Fill the gradients afresh; return the loss."""
    model.zero_grad()
    output = model(x)
    loss = nn.functional.cross_entropy(output, y)
    loss.backward()
    return loss.item()


def compare(case: Case, tied: bool, place: Place) -> dict[str, object]:
    """Train alone and with DDP; `gaps`: how far apart that has moved the weights after each step.

    The rest tells whether ranks agree: whether DDP `replaced` this rank's first weights; the last
    step's `gradients` (of the head's bias), `loss` and `weights` (of the first layer); and the
    gradients once more after a call of the model `inside` the wrapper.
    """
    # The same network on every rank, trained on whole batches by each of them alone.
    torch.manual_seed(0)
    alone = Network(case.norm(), tied)
    alone.to(place.device, torch.float64)
    start = parameters_to_vector(alone.parameters()).detach()

    # Another start on every rank: DDP's first act is to copy rank 0's weights to all.
    torch.manual_seed(place.rank)
    shared = Network(case.norm(), tied)
    shared.to(place.device, torch.float64)
    own_start = shared.first.weight.detach().clone()
    ddp_model = DistributedDataParallel(shared)
    replaced = not torch.equal(own_start, shared.first.weight)

    # The same batches on every rank.
    torch.manual_seed(1)
    total = case.first + case.others * (place.world_size - 1)
    part = part_of(place.rank, case)
    optimizer_alone = torch.optim.SGD(alone.parameters(), lr=0.1, momentum=0.9)
    optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.1, momentum=0.9)
    gaps = []
    for _ in range(5):
        x = torch.randn(total, 3, 8, 8, dtype=torch.float64).to(place.device)
        y = torch.randint(10, (total,)).to(place.device)

        backward(alone, x, y)
        optimizer_alone.step()

        loss = backward(ddp_model, x[part], y[part])
        gradients = shared.head.bias.grad.tolist()  # after `backward`, before `step`
        optimizer.step()

        moved_alone = parameters_to_vector(alone.parameters()) - start
        moved = parameters_to_vector(shared.parameters()) - start
        gaps.append(apart(moved, moved_alone, wrong=0 * moved_alone))

    weights = shared.first.weight.flatten().tolist()
    backward(shared, x[part], y[part])  # the model inside, past the wrapper
    return {
        "gaps": gaps,
        "replaced": replaced,
        "gradients": gradients,
        "loss": loss,
        "weights": weights,
        "inside": shared.head.bias.grad.tolist(),
    }


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cases = ["group", "batch", "uneven"]
    parser.add_argument("--cases", nargs="+", choices=CASES, default=cases)
    parser.add_argument("--tied", action="store_true", help="two layers share one weight")
    args = parser.parse_args()
    limit = timedelta(seconds=60)
    dist.init_process_group(place.backend, timeout=limit, device_id=place.bound)

    comparisons = {}
    for name in args.cases:
        comparisons[name] = compare(CASES[name], args.tied, place)
    if place.rank == 0:
        for name, comparison in comparisons.items():
            last_gap = comparison["gaps"][-1]
            print(f"{name:8} after five steps the weights have moved apart by {last_gap:.1e}")
    report("equal", place, **comparisons)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
