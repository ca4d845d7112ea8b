"""ddp.py once more, its five lines in a class: a Trainer tidies up, and changes no number.

Run:  torchrun --standalone --nproc-per-node=2 trainer.py --epochs 2
"""

import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, DistributedSampler

from ddp import evaluate, parse
from devices import Place, here, report
from loader import Pictures, augment, loading, normalise
from model import ResNet


class Trainer:
    """Holds what the five lines need; knows nothing about pictures, files or command lines."""

    def __init__(self, model: nn.Module, criterion: Callable, lr: float, steps: int, place: Place):
        self.place = place
        self.criterion = criterion
        self.losses: list[Tensor] = []
        self.model = DistributedDataParallel(model)
        weights = model.parameters()
        self.optimizer = SGD(weights, lr, momentum=0.9, weight_decay=5e-4, nesterov=True)
        cycle = {"anneal_strategy": "linear", "cycle_momentum": False}
        self.scheduler = OneCycleLR(self.optimizer, lr, total_steps=steps, **cycle)

    def step(self, x: Tensor, y: Tensor) -> None:
        self.optimizer.zero_grad()
        output = self.model(x)
        loss = self.criterion(output, y)
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        self.losses.append(loss.detach())

    def epoch(self, number: int, loader: DataLoader) -> None:
        loader.sampler.set_epoch(number)
        self.model.train()
        for x, y in loader:
            x = x.to(self.place.device, non_blocking=True)
            y = y.to(self.place.device, non_blocking=True)
            x = normalise(augment(x))
            self.step(x, y)
        if self.place.rank == 0:
            print(f"epoch {number + 1}: loss {self.losses[-1]:.3f}")


@record
def main() -> None:
    place = here()
    args = parse(__doc__)
    if args.global_batch_size % place.world_size:
        batch = f"a global batch of {args.global_batch_size}"
        raise ValueError(f"{place.world_size} ranks cannot share {batch} equally")
    limit = timedelta(seconds=60)
    dist.init_process_group(place.backend, timeout=limit, device_id=place.bound)

    # Data, seeds and network as in ddp.py.
    train_set = Pictures(True, args.train_size)
    test_set = Pictures(False, args.test_size)
    sampler = DistributedSampler(train_set, shuffle=True, seed=args.seed, drop_last=True)
    batch_size = args.global_batch_size // place.world_size
    options = loading(args.workers, place.device)
    loader = DataLoader(train_set, batch_size, sampler=sampler, **options)
    steps = args.epochs * len(loader)
    if steps == 0:
        raise ValueError("no epoch, or not one whole batch of pictures")
    torch.manual_seed(args.seed)
    model = ResNet().to(place.device, memory_format=torch.channels_last)
    torch.manual_seed(args.seed + place.rank)

    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    trainer = Trainer(model, criterion, args.lr, steps, place)
    began = time.perf_counter()
    for epoch in range(args.epochs):
        trainer.epoch(epoch, loader)
    losses = torch.stack(trainer.losses).tolist()
    seconds = time.perf_counter() - began
    pace = steps * args.global_batch_size / seconds

    scores = evaluate(model, test_set, place)
    if place.rank == 0:
        correct = scores["correct"]
        count = scores["count"]
        print(f"{train_set.source}: {correct:,} of {count:,} test pictures right")
    report("trainer", place, data=train_set.source, losses=losses, pace=pace, **scores)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
