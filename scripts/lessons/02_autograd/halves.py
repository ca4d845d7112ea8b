"""The gradients of two parts of a batch, averaged over the ranks: are they that of the whole batch?

Run:  python halves.py
      torchrun --standalone --nproc-per-node=2 halves.py
      torchrun --standalone --nproc-per-node=2 halves.py --first 7
"""

import argparse

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start
from yardstick import apart

ROWS = 10


def cut(world_size: int, first: int | None) -> tuple[Tensor, ...]:
    """The numbers of the rows for each rank; ValueError for a rank without rows."""
    numbers = torch.arange(ROWS)
    where = world_size if first is None else [first]  # equal parts, or a cut after the first rows
    parts = numbers.tensor_split(where)
    counts = [len(part) for part in parts]
    if len(parts) != world_size or min(counts) == 0:
        raise ValueError(f"{ROWS} rows in parts of {counts} do not suit {world_size} ranks")
    return parts


def network(norm: bool) -> nn.Module:
    """x (N, 2) → (N, 1); with BatchNorm, if asked, which looks at a whole batch at once."""
    first = nn.Linear(2, 3)
    middle = nn.BatchNorm1d(3) if norm else nn.Identity()
    last = nn.Linear(3, 1)
    return nn.Sequential(first, middle, nn.Tanh(), last)


def gradient(model: nn.Module, x: Tensor, y: Tensor, count: int) -> Tensor:
    """Gradient of the squared errors' sum over `count`, for x (N, 2) and y (N, 1), as (P,)."""
    model.zero_grad()
    errors = model(x) - y
    loss = errors.square().sum() / count
    loss.backward()
    gradients = [parameter.grad.flatten() for parameter in model.parameters()]
    return torch.cat(gradients)


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, help="rows for rank 0 of two; without it, equal parts")
    parser.add_argument("--norm", action="store_true", help="a network with BatchNorm")
    args = parser.parse_args()
    place = here()
    parts = cut(place.world_size, args.first)
    start(place)

    # The same network and the same ten rows on every rank, which takes its part of them.
    torch.manual_seed(0)
    model = network(args.norm)
    model.to(place.device, torch.float64)
    x = torch.randn(ROWS, 2, dtype=torch.float64)
    x = x.to(place.device)
    y = torch.randn(ROWS, 1, dtype=torch.float64)
    y = y.to(place.device)
    mine = parts[place.rank].to(place.device)
    own_x = x[mine]
    own_y = y[mine]
    rows = len(mine)

    # The mean loss over all ten rows, then over this rank's rows, averaged over the ranks.
    whole = gradient(model, x, y, ROWS)
    own = gradient(model, own_x, own_y, rows)
    average = own.clone()
    dist.all_reduce(average)  # adds over all ranks, and everyone gets the sum
    average /= place.world_size

    # Each row counts for a tenth, whichever rank has it: nothing is left to divide.
    weighted = gradient(model, own_x, own_y, ROWS)
    dist.all_reduce(weighted)

    gap = apart(average, whole, wrong=0 * whole)
    weighted_gap = apart(weighted, whole, wrong=0 * whole)
    line = f"rank {place.rank}: {rows} rows, average and whole are {gap:.1e} apart"
    print(f"{line}\n", end="")
    gradients = {"own": own, "average": average, "weighted": weighted, "whole": whole}
    lists = {}
    for name, tensor in gradients.items():
        lists[name] = tensor.tolist()
    gaps = {"gap": gap, "weighted_gap": weighted_gap}
    report("halves", place, rows=rows, **gaps, **lists)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
