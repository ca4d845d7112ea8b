"""Twice the ranks: which learning rate? The batch of all ranks kept, or the batch of each.

Run:  torchrun --standalone --nproc-per-node=2 rates.py
"""

import argparse
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector

from devices import Place, here, report
from equal import Network
from yardstick import apart

TESTED = 512  # pictures that nobody trains on
PERIOD = 96  # pictures from one test to the next


def beginning(pictures: int) -> tuple[Network, Tensor, Tensor]:
    """A network, x (pictures + 512, 3, 8, 8) and labels y: always the same, on every rank."""
    torch.manual_seed(0)
    teacher = Network(nn.Identity(), tied=False)
    teacher.to(torch.float64)
    model = Network(nn.Identity(), tied=False)
    model.to(torch.float64)
    x = torch.randn(pictures + TESTED, 3, 8, 8, dtype=torch.float64)
    scores = teacher(x).detach()
    centred = scores - scores.mean(0)
    scores = centred / scores.std(0)  # all ten classes about as often
    y = scores.argmax(1)
    return model, x, y


def train(
    batch_size: int, lr: float, pictures: int, place: Place, alone: bool = False
) -> tuple[list[float], Tensor]:
    """Losses on other pictures; how the weights moved. `alone` each rank takes whole batches."""
    network, x, y = beginning(pictures)
    network.to(place.device)
    start = parameters_to_vector(network.parameters()).detach()
    x = x.to(place.device)
    y = y.to(place.device)
    model = network
    rank = 0
    world_size = 1
    if not alone:
        model = DistributedDataParallel(network)
        rank = place.rank
        world_size = place.world_size

    optimizer = torch.optim.SGD(network.parameters(), lr)
    losses = []
    for begin in range(0, pictures, batch_size):
        if begin % PERIOD == 0:
            output = network(x[pictures:])
            loss = cross_entropy(output, y[pictures:])
            losses.append(loss.item())
        part = slice(begin + rank, begin + batch_size, world_size)
        optimizer.zero_grad()
        output = model(x[part])
        loss = cross_entropy(output, y[part])
        loss.backward()
        optimizer.step()
    moved = parameters_to_vector(network.parameters()) - start
    return losses, moved.detach()


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--pictures", type=int, default=PERIOD * 38)
    args = parser.parse_args()
    limit = timedelta(seconds=60)
    dist.init_process_group(place.backend, timeout=limit, device_id=place.bound)

    # The batch is so small that the batches of all ranks fit into one period.
    n = place.world_size
    size = 48 // n
    losses, goal = train(size, args.lr, args.pictures, place, alone=True)
    curves = {f"one rank, batch {size}": losses}

    setups = {
        f"{n} ranks, batch {size} in all, same rate": (size, args.lr),
        f"{n} ranks, batch {size} each, same rate": (n * size, args.lr),
        f"{n} ranks, batch {size} each, {n} × the rate": (n * size, n * args.lr),
    }
    far = {}
    for name, (batch_size, lr) in setups.items():
        losses, moved = train(batch_size, lr, args.pictures, place)
        curves[name] = losses
        far[name] = apart(moved, goal, wrong=0 * goal)
        if place.rank == 0:
            print(f"{name:42} loss {losses[-1]:.4f}, weights off by {far[name]:.1e}")
    report("rates", place, curves=curves, far=far)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
