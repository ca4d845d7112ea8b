"""The method of a published record (arXiv:2404.00498), written from its description, under DDP.

What is new beside fast.py: the network of whitelayers.py, mirroring without chance, slow weights,
large steps for BatchNorm's biases, and six views in the test.

Run:  python whitened.py --epochs 10
      torchrun --standalone --nproc-per-node=2 whitened.py --epochs 10
"""

import argparse
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report, start
from dtypes import FORMATS, best_dtype, units
from loader import Pictures, normalise
from stopwatch import seconds
from whitelayers import Whitened, groups_of, mirror_half, numbers_of, rate, shifted, views, whiten

BATCH = 1024  # pictures in a step of all ranks
WHITE_EPOCHS = 3  # in which the first layer's biases learn


class Training:
    """The model, its optimizer, and the slow weights that the fast ones come back to."""

    def __init__(self, place: Place, widths: list[int], x: Tensor, steps: int):
        self.place = place
        self.steps = steps  # that there will be
        self.done = 0
        self.model = Whitened(widths).to(place.device, memory_format=torch.channels_last)
        whiten(self.model.white, x)
        self.ddp_model = DistributedDataParallel(self.model, gradient_as_bucket_view=True)
        self.ddp_model.broadcast_buffers = False
        best, _ = best_dtype(units(place.device))
        dtype = FORMATS[best]
        kind = place.device.type
        self.cast = torch.autocast(kind, dtype, enabled=dtype != torch.float32)
        self.scaler = torch.amp.GradScaler(kind, enabled=dtype == torch.float16)
        groups = groups_of(self.model)
        self.optimizer = torch.optim.SGD(groups, momentum=0.85, nesterov=True, fused=True)
        self.slow = [tensor.clone() for tensor in numbers_of(self.model)]

    def rates(self, epoch: int) -> None:
        """Set the learning rates; the first layer's biases learn in the first epochs only."""
        part = rate(self.done / self.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = part * group["top"]
        if epoch >= WHITE_EPOCHS:
            self.optimizer.param_groups[2]["lr"] = 0.0

    @torch.no_grad()
    def look_ahead(self, stay: float) -> None:
        """Slow weights go towards the fast ones; these begin again from there."""
        fast = numbers_of(self.model)
        torch._foreach_lerp_(self.slow, fast, 1 - stay)
        torch._foreach_copy_(fast, self.slow)

    def epoch(self, train_set: Pictures, number: int, seed: int) -> None:
        """One epoch. In every second one all pictures are seen from their other side."""
        self.model.train()
        rng = torch.Generator().manual_seed(1000 * seed + number)
        order = torch.randperm(len(train_set), generator=rng)
        size = BATCH // self.place.world_size
        mine = order[self.place.rank :: self.place.world_size].to(self.place.device)
        mine = mine[: len(order) // BATCH * size]  # what makes no whole batch is left out
        for chosen in mine.split(size):
            x = shifted(normalise(train_set.x[chosen]))
            if number % 2:
                x = x.flip(3)
            x = x.contiguous(memory_format=torch.channels_last)
            self.rates(number)
            self.optimizer.zero_grad()
            with self.cast:
                scores = self.ddp_model(x)
                loss = F.cross_entropy(scores, train_set.y[chosen], label_smoothing=0.2)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.done += 1
            if self.done % 5 == 0:
                self.look_ahead(0.95**5 * (self.done / self.steps) ** 3)
        if self.done == self.steps:
            self.look_ahead(1.0)

    @torch.no_grad()
    def evaluate(self, test_set: Pictures) -> float:
        """Accuracy on all test pictures."""
        self.model.eval()
        for buffer in self.model.buffers():
            dist.broadcast(buffer, src=0)
        right = torch.zeros((), dtype=torch.int64, device=self.place.device)
        for x, y in test_set.batches(500, self.place.rank, self.place.world_size):
            with self.cast:
                scores = views(self.model, normalise(x))
            answers = scores.argmax(1)
            right += (answers == y).sum()
        dist.all_reduce(right)
        return right.item() / len(test_set)


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--widths", type=int, nargs=3, default=[64, 256, 256])
    parser.add_argument("--train-size", type=int, help="use only the first so many pictures")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    start(place)

    train_set = Pictures(True, args.train_size)
    test_set = Pictures(False)
    for each in (train_set, test_set):
        each.x = each.x.to(place.device)
        each.y = each.y.to(place.device)
    torch.manual_seed(args.seed)
    mirror_half(train_set.x)  # once; then all change sides in each epoch
    steps = args.epochs * (len(train_set) // BATCH)
    sample = normalise(train_set.x[:5000])
    training = Training(place, args.widths, sample, steps)
    torch.manual_seed(args.seed + place.rank)

    trained = 0.0
    curve = []
    for number in range(args.epochs):
        way = partial(training.epoch, train_set, number, args.seed)
        trained += seconds(way, place.device)
        accuracy = training.evaluate(test_set)
        curve.append({"seconds": trained, "accuracy": accuracy})
        if place.rank == 0:
            print(f"epoch {number + 1}: {accuracy:.1%} right after {trained:.1f} s of training")
    report("whitened", place, data=train_set.source, curve=curve, steps=training.done)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
