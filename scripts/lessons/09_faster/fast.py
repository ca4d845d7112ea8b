"""The recipe: all changes of this lesson in one program. Accuracy against seconds of training.

Run:  python fast.py --epochs 4
      torchrun --standalone --nproc-per-node=2 fast.py --epochs 4
"""

import argparse
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report, start
from dtypes import FORMATS, best_dtype, units
from loader import Pictures, augment, normalise
from model import ResNet
from stopwatch import seconds


def batches(pictures: int, size: int, epoch: int, place: Place) -> tuple[Tensor, ...]:
    """Which pictures this rank takes in one epoch: for each step their numbers (size,)."""
    rng = torch.Generator().manual_seed(epoch)  # the same order on all ranks
    order = torch.randperm(pictures, generator=rng)
    mine = order[place.rank :: place.world_size].to(place.device)
    steps = pictures // (size * place.world_size)  # what makes no whole batch is left out
    return mine[: steps * size].split(size)


def tuned(model: nn.Module) -> nn.Module:
    """DDP as this lesson leaves it: gradients are views of buckets, and no buffers are sent."""
    ddp_model = DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)
    ddp_model.broadcast_buffers = False  # ahead of forward; at the start they have been sent
    return ddp_model


class Training:
    """A model and what the recipe trains it with; `steps`: how many there will be."""

    def __init__(
        self, model: nn.Module, lr: float, steps: int, place: Place, compiled: bool = False
    ):
        self.model = model
        self.ddp_model = tuned(torch.compile(model) if compiled else model)  # in lesson 07's order
        self.place = place
        self.dtype, self.reason = best_dtype(units(place.device))
        dtype = FORMATS[self.dtype]
        self.cast = torch.autocast(place.device.type, dtype, enabled=dtype != torch.float32)
        self.scaler = torch.amp.GradScaler(place.device.type, enabled=dtype == torch.float16)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        options = {"momentum": 0.9, "weight_decay": 5e-4, "nesterov": True, "fused": True}
        self.optimizer = torch.optim.SGD(model.parameters(), lr, **options)
        # The learning rate goes up for 30 % of the steps, then down; momentum the other way round.
        cycle = torch.optim.lr_scheduler.OneCycleLR
        self.scheduler = cycle(self.optimizer, lr, total_steps=steps, anneal_strategy="linear")

    def epoch(self, train_set: Pictures, size: int, number: int) -> None:
        """One epoch in batches of `size` pictures a rank; `number` seeds their order."""
        self.model.train()
        for chosen in batches(len(train_set), size, number, self.place):
            x = normalise(augment(train_set.x[chosen]))
            y = train_set.y[chosen]
            self.optimizer.zero_grad()
            with self.cast:
                loss = self.criterion(self.ddp_model(x), y)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.scheduler.step()

    @torch.no_grad()
    def evaluate(self, test_set: Pictures, flip: bool) -> float:
        """Accuracy on all test pictures; with `flip`, each is shown as its mirror image, too."""
        self.model.eval()
        for buffer in self.model.buffers():
            dist.broadcast(buffer, src=0)  # each rank's BatchNorm has statistics of its own
        right = torch.zeros((), dtype=torch.int64, device=self.place.device)
        for x, y in test_set.batches(500, self.place.rank, self.place.world_size):
            x = normalise(x)
            with self.cast:
                scores = self.model(x)
                if flip:
                    scores = scores + self.model(x.flip(3))
            right += (scores.argmax(1) == y).sum()
        dist.all_reduce(right)
        return right.item() / len(test_set)


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--global-batch-size", type=int, default=256, help="pictures in a step")
    parser.add_argument("--lr", type=float, default=0.4, help="learning rate at its peak")
    parser.add_argument("--widths", default="32,64,64", help="channels; on a GPU try 64,128,256")
    parser.add_argument("--train-size", type=int, help="use only the first so many pictures")
    parser.add_argument("--compile", action="store_true", help="pays in a training of minutes")
    parser.add_argument("--flip", action="store_true", help="test with mirror images, too")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    whole = args.global_batch_size
    if whole % place.world_size > 0:
        raise ValueError(f"{place.world_size} ranks cannot share a global batch of {whole} equally")
    start(place)

    train_set = Pictures(True, args.train_size)
    test_set = Pictures(False)
    for pictures in (train_set, test_set):
        pictures.x = pictures.x.to(place.device)  # once, a byte a colour
        pictures.y = pictures.y.to(place.device)
    steps = args.epochs * (len(train_set) // whole)
    if steps == 0:
        parser.error("no epoch, or not one whole batch")

    torch.manual_seed(args.seed)
    widths = [int(width) for width in args.widths.split(",")]
    model = ResNet(tuple(widths)).to(place.device, memory_format=torch.channels_last)
    training = Training(model, args.lr, steps, place, args.compile)
    torch.manual_seed(args.seed + place.rank)  # every rank draws random numbers of its own

    size = whole // place.world_size
    trained = 0.0  # seconds, with compiling, without testing
    curve = []
    for epoch in range(args.epochs):
        number = 1000 * args.seed + epoch
        trained += seconds(partial(training.epoch, train_set, size, number), place.device)
        accuracy = training.evaluate(test_set, args.flip)
        curve.append({"seconds": trained, "accuracy": accuracy})
        if place.rank == 0:
            after = f"{trained:.1f} s of training, {training.dtype}"
            print(f"epoch {epoch + 1}: {accuracy:.1%} right after {after}")

    pace = steps * whole / trained
    if place.rank == 0:
        print(f"{train_set.source}: {pace:,.0f} pictures a second")
    numbers = {"data": train_set.source, "curve": curve, "pace": pace, "steps": steps}
    report("fast", place, dtype=training.dtype, reason=training.reason, **numbers)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
