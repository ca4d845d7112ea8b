"""One way to train, step by step until the clock says stop: its model, its pictures, its switches.

Run:  python sprinter.py
      torchrun --standalone --nproc-per-node=2 sprinter.py
"""

import itertools
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn import functional as F

import ingredients
import optimizers
from clocked import Clock
from devices import Place, here, report, start
from ingredients import Way
from loader import Pictures, augment, normalise


def stream(pictures: int, size: int, seed: int, place: Place) -> Iterator[Tensor]:
    """This rank's batches, without end: their pictures' numbers (size,). The seed draws orders."""
    rng = torch.Generator().manual_seed(seed)  # the same on all ranks
    whole = pictures // (size * place.world_size) * size
    for _ in itertools.count():
        order = torch.randperm(pictures, generator=rng)
        mine = order[place.rank :: place.world_size]
        yield from mine[:whole].split(size)


class Sprint:
    """One way to train: its model, its pictures, and what it needs for a step."""

    def __init__(self, way: Way, train_set: Pictures, place: Place):
        on = way.switches
        self.way = way
        self.place = place
        home = place.device if "batches" in on else torch.device("cpu")
        self.x = train_set.x.to(home)
        self.y = train_set.y.to(home)

        torch.manual_seed(way.seed)  # the same weights on all ranks
        self.layout = torch.channels_last if "last" in on else torch.contiguous_format
        network = ingredients.network(way)
        self.model = network.to(place.device, memory_format=self.layout)
        torch.manual_seed(1000 * way.seed + place.rank)  # each rank shifts and mirrors on its own
        self.ddp_model = ingredients.under_ddp(way, self.model)
        self.average = ingredients.moving_average(way, self.model)
        self.cast, self.scaler = ingredients.mixed_precision(way, place.device)
        smoothing = 0.1 if "smooth" in on else 0.0
        self.criterion = nn.CrossEntropyLoss(label_smoothing=smoothing)
        self.optimizers = ingredients.optimizers(way, self.model)

    def batch(self, chosen: Tensor, share: float) -> tuple[Tensor, Tensor]:
        """Pictures (N, 3, side, side) and labels (N,), shifted and mirrored, on the device."""
        chosen = chosen.to(self.x.device)
        parts = [chosen] if "batches" in self.way.switches else chosen.split(1)
        prepared = []
        for part in parts:
            x = augment(self.x[part])
            prepared.append(normalise(x))
        x = torch.cat(prepared)
        pixels = ingredients.side(self.way, share)
        if pixels < x.shape[-1]:
            x = F.interpolate(x, size=pixels, mode="bilinear")
        x = x.to(self.place.device)
        x = x.contiguous(memory_format=self.layout)
        return x, self.y[chosen].to(self.place.device)

    def step(self, chosen: Tensor, share: float) -> None:
        x, y = self.batch(chosen, share)
        rate = self.way.lr * ingredients.factor(self.way, share)
        optimizers.begin(self.optimizers, rate)
        with self.cast:
            scores = self.ddp_model(x)
            loss = self.criterion(scores, y)
        self.scaler.scale(loss).backward()
        optimizers.step(self.optimizers, self.scaler)
        if self.average:
            self.average.update_parameters(self.model)

    @torch.no_grad()
    def evaluate(self, test_set: Pictures) -> dict[str, float]:
        """The share of pictures that are right: as they are, and with their mirror images, too."""
        model = self.average.module if self.average else self.model
        model.eval()
        for buffer in model.buffers():
            dist.broadcast(buffer, src=0)  # each rank's BatchNorm has statistics of its own
        right = torch.zeros(2, dtype=torch.int64, device=self.place.device)
        for x, y in test_set.batches(500, self.place.rank, self.place.world_size):
            x = normalise(x.to(self.place.device))
            with self.cast:
                plain = model(x)
                both = plain + model(x.flip(3))
            for number, scores in enumerate([plain, both]):
                answers = scores.argmax(1).to(y.device)
                right[number] += (answers == y).sum()
        dist.all_reduce(right)
        self.model.train()
        plain, mirrored = (right / len(test_set)).tolist()
        return {"plain": plain, "mirrored": mirrored}

    def run(self, clock: Clock, test_set: Pictures, points: int) -> dict[str, object]:
        """Train until the seconds are over, and test, outside of them, so many times."""
        size = self.way.batch_size // self.place.world_size
        chosen = stream(len(self.y), size, self.way.seed, self.place)
        curve = []
        steps = 0
        share = clock.share()
        while len(curve) < points:
            until = (len(curve) + 1) / points
            while share < until:
                self.step(next(chosen), share)
                steps += 1
                share = clock.share()
            paused = time.perf_counter()
            right = self.evaluate(test_set)
            curve.append({"seconds": clock.passed} | right)
            clock.began += time.perf_counter() - paused
        pace = steps * self.way.batch_size / clock.passed
        totals = {"curve": curve, "steps": steps, "pace": pace}
        return totals | curve[-1]


@record
def main() -> None:
    place = here()
    start(place)
    batches = stream(8, 2, 0, place)
    own = next(batches).tolist()
    print(f"rank {place.rank}: pictures {own} of eight\n", end="")
    report("sprinter", place, own=own)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
