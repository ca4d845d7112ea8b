"""Twice the ranks: which learning rate? The batch of all ranks kept, or the batch of each.

Run:  torchrun --standalone --nproc-per-node=2 rates.py
"""

import argparse
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report
from equal import Network


def train(batch_size: int, lr: float, pictures: int, place: Place | None) -> tuple[list[float], list[float]]:
    """Losses on 512 pictures after every 96, and the weights at the end; without a place, alone on whole batches."""
    torch.manual_seed(0)  # the same pictures, labels and first weights in every run and on every rank
    device = place.device if place else "cpu"
    teacher, model = (Network(nn.Identity(), tied=False).to(torch.float64) for _ in range(2))
    x = torch.randn(pictures + 512, 3, 8, 8, dtype=torch.float64)
    scores = teacher(x).detach()
    y = ((scores - scores.mean(0)) / scores.std(0)).argmax(1)  # all ten classes about as often
    x, y, test = x.to(device), y.to(device), slice(pictures, None)
    model.to(device)
    trained = DistributedDataParallel(model) if place else model
    rank, ranks = (place.rank, place.world_size) if place else (0, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr)
    losses = []
    for start in range(0, pictures, batch_size):
        if start % 96 == 0:
            losses.append(nn.functional.cross_entropy(model(x[test]), y[test]).item())
        part = slice(start + rank, start + batch_size, ranks)
        optimizer.zero_grad()
        output = trained(x[part])
        loss = nn.functional.cross_entropy(output, y[part])
        loss.backward()
        optimizer.step()
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    return losses, weights.tolist()


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--pictures", type=int, default=96 * 38)
    parser.add_argument("--timeout", type=float, default=60)
    args, place = parser.parse_args(), here()
    dist.init_process_group(place.backend, timeout=timedelta(seconds=args.timeout))

    batch_size, n = 48 // place.world_size, place.world_size  # small enough that all batches fit into 96 pictures
    one, goal = train(batch_size, args.lr, args.pictures, None)
    curves, far = {f"one rank, batch {batch_size}": one}, {}
    for name, batch, lr in [
        (f"{n} ranks, batch {batch_size} in all, same rate", batch_size, args.lr),
        (f"{n} ranks, batch {batch_size} each, same rate", n * batch_size, args.lr),
        (f"{n} ranks, batch {batch_size} each, {n} × the rate", n * batch_size, n * args.lr),
    ]:
        curves[name], weights = train(batch, lr, args.pictures, place)
        far[name] = max(abs(a - b) for a, b in zip(goal, weights, strict=True))
        if place.rank == 0:
            print(f"{name:42} loss {curves[name][-1]:.4f}, weights off by at most {far[name]:.1e}")
    report("rates", place, curves=curves, far=far)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
