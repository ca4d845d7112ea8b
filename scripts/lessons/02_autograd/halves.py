"""The gradients of two parts of a batch, averaged over the ranks: are they the gradient of the whole batch?

Run:  python halves.py
      torchrun --standalone --nproc-per-node=2 halves.py
      torchrun --standalone --nproc-per-node=2 halves.py --first 7
"""

import argparse
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report

ROWS = 10


def gradient(model: nn.Module, x: torch.Tensor, y: torch.Tensor, count: int) -> torch.Tensor:
    """Gradient of the squared errors' sum over `count`, for x (N, 2) and y (N, 1): all parameters in a row, (P,)."""
    model.zero_grad()
    loss = (model(x) - y).square().sum() / count
    loss.backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, help="rows for rank 0 of two; without it, equal parts")
    parser.add_argument("--norm", action="store_true", help="with BatchNorm, which looks at a whole batch at once")
    parser.add_argument("--timeout", type=float, default=60)
    args, place = parser.parse_args(), here()
    rank, _, world_size, device, backend = place
    parts = torch.arange(ROWS).tensor_split(world_size if args.first is None else [args.first])
    if len(parts) != world_size or min(map(len, parts)) == 0:
        raise ValueError(f"{ROWS} rows in parts of {[len(part) for part in parts]} do not suit {world_size} ranks")
    dist.init_process_group(backend, timeout=timedelta(seconds=args.timeout))

    torch.manual_seed(0)  # the same network and the same ten rows on every rank
    norm = nn.BatchNorm1d(3) if args.norm else nn.Identity()
    model = nn.Sequential(nn.Linear(2, 3), norm, nn.Tanh(), nn.Linear(3, 1)).to(device, torch.float64)
    x = torch.randn(ROWS, 2, dtype=torch.float64).to(device)
    y = torch.randn(ROWS, 1, dtype=torch.float64).to(device)
    mine = parts[rank].to(device)

    whole = gradient(model, x, y, ROWS)  # of the mean loss over all ten rows
    own = gradient(model, x[mine], y[mine], len(mine))  # of the mean loss over this rank's rows
    average = own.clone()
    dist.all_reduce(average)  # adds over all ranks, and everyone gets the sum
    average /= world_size

    weighted = gradient(model, x[mine], y[mine], ROWS)  # each row counts for a tenth, whichever rank has it
    dist.all_reduce(weighted)

    gaps = [(other - whole).abs().max().item() for other in (average, weighted)]
    print(f"rank {rank}: {len(mine)} rows, average and whole differ by at most {gaps[0]:.1e}\n", end="")
    results = {"own": own, "average": average, "weighted": weighted, "whole": whole}
    lists = {name: tensor.tolist() for name, tensor in results.items()}
    report("halves", place, rows=len(mine), gap=gaps[0], weighted_gap=gaps[1], **lists)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
