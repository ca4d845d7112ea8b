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
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from clocked import Clock
from devices import Place, here, report, start
from dtypes import FORMATS, best_dtype, units
from ingredients import Way, factor, network, side
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
        self.model = network(way).to(place.device, memory_format=self.layout)
        torch.manual_seed(1000 * way.seed + place.rank)  # each rank shifts and mirrors on its own
        inner = torch.compile(self.model, dynamic=False) if "compile" in on else self.model
        views = {"gradient_as_bucket_view": True, "static_graph": True} if "views" in on else {}
        self.ddp_model = DistributedDataParallel(inner, **views)
        self.ddp_model.broadcast_buffers = "views" not in on
        self.average = None
        if "ema" in on:
            decay = {"multi_avg_fn": get_ema_multi_avg_fn(0.98), "use_buffers": True}
            self.average = AveragedModel(self.model, **decay)

        best, _ = best_dtype(units(place.device))
        dtype = FORMATS[best if "bits" in on else "fp32"]
        self.cast = torch.autocast(place.device.type, dtype, enabled=dtype != torch.float32)
        self.scaler = torch.amp.GradScaler(place.device.type, enabled=dtype == torch.float16)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1 if "smooth" in on else 0.0)
        fused = True if "fused" in on else None  # None: torch chooses
        options = {"momentum": 0.9, "weight_decay": 5e-4, "nesterov": True, "fused": fused}
        self.optimizer = torch.optim.SGD(self.model.parameters(), way.lr, **options)

    def batch(self, chosen: Tensor, share: float) -> tuple[Tensor, Tensor]:
        """Pictures (N, 3, side, side) and labels (N,), shifted and mirrored, on the device."""
        chosen = chosen.to(self.x.device)
        parts = [chosen] if "batches" in self.way.switches else chosen.split(1)
        x = torch.cat([normalise(augment(self.x[part])) for part in parts])
        pixels = side(self.way, share)
        if pixels < x.shape[-1]:
            x = F.interpolate(x, size=pixels, mode="bilinear")
        x = x.to(self.place.device).contiguous(memory_format=self.layout)
        return x, self.y[chosen].to(self.place.device)

    def step(self, chosen: Tensor, share: float) -> None:
        x, y = self.batch(chosen, share)
        for group in self.optimizer.param_groups:
            group["lr"] = self.way.lr * factor(self.way, share)
        self.optimizer.zero_grad()
        with self.cast:
            loss = self.criterion(self.ddp_model(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
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
                right[number] += (scores.argmax(1).to(y.device) == y).sum()
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
            while share < (len(curve) + 1) / points:
                self.step(next(chosen), share)
                steps += 1
                share = clock.share()
            paused = time.perf_counter()
            curve.append({"seconds": clock.passed} | self.evaluate(test_set))
            clock.began += time.perf_counter() - paused
        pace = steps * self.way.batch_size / clock.passed
        return {"curve": curve, "steps": steps, "pace": pace} | curve[-1]


@record
def main() -> None:
    place = here()
    start(place)
    own = next(stream(8, 2, 0, place)).tolist()
    print(f"rank {place.rank}: pictures {own} of eight\n", end="")
    report("sprinter", place, own=own)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
