"""Train lesson 06's network, briefly, and save its weights as many people do: with DDP around it.

Run:  python graduate.py --epochs 2
      torchrun --standalone --nproc-per-node=2 graduate.py --epochs 2
"""

from argparse import ArgumentParser

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, DistributedSampler

from devices import Place, here, report, start
from loader import Pictures, augment, loading, normalise
from model import ResNet

BATCH = 128  # pictures in one step, of all ranks together
RATE = 0.2  # learning rate at its peak


def train(ddp_model: nn.Module, pictures: Pictures, epochs: int, place: Place) -> list[float]:
    """Lesson 06's training; the loss of each step on this rank."""
    sampler = DistributedSampler(pictures, shuffle=True, seed=0, drop_last=True)
    options = loading(0, place.device)
    share = BATCH // place.world_size
    loader = DataLoader(pictures, share, sampler=sampler, **options)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = SGD(ddp_model.parameters(), RATE, momentum=0.9, weight_decay=5e-4, nesterov=True)
    cycle = {"anneal_strategy": "linear", "cycle_momentum": False}
    steps = epochs * len(loader)
    scheduler = OneCycleLR(optimizer, RATE, total_steps=steps, **cycle)

    losses = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            x = normalise(augment(x.to(place.device)))
            y = y.to(place.device)
            optimizer.zero_grad()
            loss = criterion(ddp_model(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
    return losses


@record
def main() -> None:
    place = here()
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--train-size", type=int, help="use only the first so many pictures")
    args = parser.parse_args()
    start(place)

    torch.manual_seed(0)  # the ranks begin with the same weights
    model = ResNet().to(place.device, memory_format=torch.channels_last)
    torch.manual_seed(1 + place.rank)  # and shift and mirror each in their own way
    ddp_model = DistributedDataParallel(model)
    pictures = Pictures(True, args.train_size)
    losses = train(ddp_model, pictures, args.epochs, place)

    state = ddp_model.state_dict()
    if place.rank == 0:
        torch.save(state, "wrapped.pt")
        end = f"after {len(losses)} steps {losses[-1]:.3f}"
        print(f"{pictures.source}: loss {losses[0]:.3f}, {end}")
    names = list(state)
    report("graduate", place, data=pictures.source, losses=losses, names=names)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
