"""ddp.py once more, its five lines in a class: a Trainer is a way to tidy up, and changes no number.

Run:  torchrun --standalone --nproc-per-node=2 trainer.py --epochs 2
"""

import argparse
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from ddp import evaluate
from devices import Place, here, report
from loader import Pictures, as_is, augment, normalise
from model import ResNet


class Trainer:
    """Holds what the five lines need; knows nothing about pictures, files or command lines."""

    def __init__(self, model: torch.nn.Module, criterion: Callable, lr: float, steps: int, place: Place):
        self.place, self.criterion, self.losses = place, criterion, []
        self.model = DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)
        self.optimizer = torch.optim.SGD(model.parameters(), lr, momentum=0.9, weight_decay=5e-4, nesterov=True)
        schedule = torch.optim.lr_scheduler.OneCycleLR
        self.scheduler = schedule(self.optimizer, lr, total_steps=steps, anneal_strategy="linear")

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
            x, y = (part.to(self.place.device, non_blocking=True) for part in (x, y))
            self.step(normalise(augment(x)), y)
        if self.place.rank == 0:
            print(f"epoch {number + 1}: loss {self.losses[-1]:.3f}")


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--global-batch-size", type=int, default=128, help="pictures in one optimizer step")
    parser.add_argument("--lr", type=float, default=0.2, help="learning rate at its peak")
    parser.add_argument("--train-size", type=int, help="use only the first so many pictures")
    parser.add_argument("--test-size", type=int)
    parser.add_argument("--workers", type=int, default=0, help="loader processes a rank")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=60, help="seconds that a rank waits for the others")
    args, place = parser.parse_args(), here()
    rank, _, world_size, device, backend = place
    if args.global_batch_size % world_size:
        raise ValueError(f"{world_size} ranks cannot share a global batch of {args.global_batch_size} equally")
    batch_size = args.global_batch_size // world_size
    dist.init_process_group(backend, timeout=timedelta(seconds=args.timeout))
    train_set, test_set = Pictures(True, args.train_size), Pictures(False, args.test_size)
    loading = {"num_workers": args.workers, "pin_memory": device.type == "cuda", "collate_fn": as_is, "drop_last": True}
    sampler = DistributedSampler(train_set, shuffle=True, seed=args.seed, drop_last=True)
    loader = DataLoader(train_set, batch_size, sampler=sampler, **loading)
    torch.manual_seed(args.seed)
    model = ResNet().to(device, memory_format=torch.channels_last)
    steps = args.epochs * len(loader) or parser.error("no epoch, or not one whole batch of pictures")
    trainer = Trainer(model, torch.nn.CrossEntropyLoss(label_smoothing=0.1), args.lr, steps, place)
    torch.manual_seed(args.seed + rank)  # from here on, every rank draws random numbers of its own

    start = time.perf_counter()
    for epoch in range(args.epochs):
        trainer.epoch(epoch, loader)
    losses = torch.stack(trainer.losses).tolist()
    pace = steps * args.global_batch_size / (time.perf_counter() - start)

    scores = evaluate(model, test_set, place)
    if rank == 0:
        print(f"{train_set.source}: {scores['correct']:,} of {scores['count']:,} test pictures right")
    report("trainer", place, data=train_set.source, losses=losses, pace=pace, **scores)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
