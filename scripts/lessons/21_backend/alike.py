"""DDP on a backend of our own: are the weights those of gloo, and those of one process?

Run:  python alike.py
      torchrun --standalone --nproc-per-node=4 alike.py
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector

from devices import here, report, start
from ownbackends import on_cpu, register

LIMIT = timedelta(seconds=60)  # new_group's own would be 30 minutes
STEPS = 20
SIZE = 10_000  # numbers in a tensor that is added up
SAMPLE = slice(None, None, 100)  # of which the notebook gets every hundredth


def network() -> nn.Sequential:
    """x (N, 20) → (N, 5); the same start on every rank."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 50), nn.Tanh(), nn.Linear(50, 5))


def batch(step: int, rank: int) -> Tensor:
    """What this rank learns from in this step: (8, 20)."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(8, 20, generator=generator)


def update(model: nn.Module) -> None:
    """One step of plain SGD."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
    model.zero_grad()


def train(group: dist.ProcessGroup, rank: int) -> Tensor:
    """The weights after training under DDP, as one row of numbers."""
    model = network()
    ddp_model = DistributedDataParallel(model, process_group=group)
    for step in range(STEPS):
        ddp_model(batch(step, rank)).square().mean().backward()
        update(model)
    return parameters_to_vector(model.parameters()).detach()


def train_alone(ranks: int) -> Tensor:
    """The same in one process, which adds the ranks' gradients in rank order."""
    model = network()
    for step in range(STEPS):
        totals = None
        for rank in range(ranks):
            model.zero_grad()
            model(batch(step, rank)).square().mean().backward()
            # DDP, too, multiplies by one over the number of ranks before it adds.
            shares = [parameter.grad * (1 / ranks) for parameter in model.parameters()]
            if totals is None:
                totals = shares
            else:
                totals = [total + share for total, share in zip(totals, shares, strict=True)]
        for parameter, total in zip(model.parameters(), totals, strict=True):
            parameter.grad = total
        update(model)
    return parameters_to_vector(model.parameters()).detach()


def add_up(numbers: Tensor, group: dist.ProcessGroup, pieces: int = 1) -> Tensor:
    """The sum over the ranks of a group, in one all-reduce or in several."""
    total = numbers.clone()
    for piece in total.chunk(pieces):
        dist.all_reduce(piece, group=group)
    return total


def mean(tensor: Tensor, group: dist.ProcessGroup) -> None:
    """The mean over the ranks of a group, in place. Our backend has no AVG."""
    # BEGIN SOLUTION
    dist.all_reduce(tensor, group=group)
    tensor /= dist.get_world_size(group)
    # STUB dist.all_reduce(tensor, group=group)
    # END SOLUTION


def compare(gloo: dist.ProcessGroup, ours: dist.ProcessGroup, rank: int) -> dict:
    """How the two backends differ on the ranks of these groups."""
    ranks = dist.get_world_size(ours)
    parts = [torch.randn(SIZE, generator=torch.Generator().manual_seed(r)) for r in range(ranks)]
    weights = {"gloo": train(gloo, rank), "ours": train(ours, rank)}
    sums = {name: add_up(parts[rank], group) for name, group in [("gloo", gloo), ("ours", ours)]}
    halves = {"gloo": add_up(parts[rank], gloo, 2), "ours": add_up(parts[rank], ours, 2)}
    average = parts[rank].clone()
    mean(average, ours)
    return {
        "alone": torch.equal(weights["ours"], train_alone(ranks)),
        "gap": (weights["ours"] - weights["gloo"]).abs().max().item(),
        "halves": {name: torch.equal(sums[name], halves[name]) for name in sums},
        "parts": [part[SAMPLE].tolist() for part in parts],
        "sums": {name: total[SAMPLE].tolist() for name, total in sums.items()},
        "largest": weights["gloo"].abs().max().item(),
        "mean": (average - sums["ours"] / ranks).abs().max().item(),
    }


@record
def main() -> None:
    torch.set_num_threads(1)
    place = on_cpu(here(), register("nearby"))
    start(place)
    runs = {}
    for ranks in range(1 if place.world_size == 1 else 2, place.world_size + 1):
        members = list(range(ranks))
        gloo = dist.new_group(members, LIMIT, "gloo")
        ours = dist.new_group(members, LIMIT, place.backend)
        if place.rank < ranks:
            runs[ranks] = compare(gloo, ours, place.rank)
    if place.rank == 0:
        print(f"{place.backend} beside gloo, on {', '.join(map(str, runs))} ranks")
    report("alike", place, runs=runs)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
