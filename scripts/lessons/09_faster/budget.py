"""Where do the milliseconds of a step go? Data, forward, backward, communication and step, each on its own.

Run:  python budget.py
      torchrun --standalone --nproc-per-node=2 budget.py --batch-size 64
"""

import argparse
import time
from contextlib import nullcontext
from datetime import timedelta
from statistics import median

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report
from loader import augment, normalise
from model import ResNet


class Training:
    """The course's ResNet on pictures of noise, one step at a time. No option: as textbooks write it."""

    def __init__(self, options: set[str], batch_size: int, place: Place):
        self.options, self.batch_size, self.place = options, batch_size, place
        self.layout = torch.channels_last if "channels last" in options else torch.contiguous_format
        torch.manual_seed(0)
        model = ResNet().to(place.device, memory_format=self.layout)
        view = "bucket view" in options
        self.model = DistributedDataParallel(model, gradient_as_bucket_view=view, static_graph=view)
        self.model.broadcast_buffers = "own statistics" not in options  # the argument has another name in newer torch
        self.optimizer = torch.optim.SGD(model.parameters(), 0.01, 0.9, nesterov=True, fused="fused" in options or None)
        home = place.device if "whole batches" in options else "cpu"  # a byte a colour: CIFAR-10 takes 154 MB
        self.x = torch.randint(256, (2048, 3, 32, 32), dtype=torch.uint8).to(home)
        self.y = torch.randint(10, (2048,)).to(home)

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Pictures (N, 3, 32, 32), shifted, mirrored, normalised, and labels (N,), both on this rank's device."""
        at = torch.randint(len(self.x), (self.batch_size,), device=self.x.device)
        parts = [at] if "whole batches" in self.options else at.split(1)
        x = torch.cat([normalise(augment(self.x[part])) for part in parts])
        return x.to(self.place.device).contiguous(memory_format=self.layout), self.y[at].to(self.place.device)

    def step(self, talk: bool = True, laps: bool = True) -> dict[str, float]:
        """Seconds of each phase. Without talk every rank goes its own way: other weights, as much work."""
        times = [time.perf_counter()]

        def lap() -> None:
            if laps and self.place.device.type == "cuda":
                torch.cuda.synchronize()  # a phase ends when its kernels have
            times.append(time.perf_counter())

        x, y = self.batch()
        lap()
        with nullcontext() if talk else self.model.no_sync():
            self.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.model(x), y)
            lap()
            loss.backward()
            lap()
        self.optimizer.step()
        lap()
        return {name: times[n + 1] - times[n] for n, name in enumerate(("data", "forward", "backward", "step"))}


def budget(training: Training, steps: int) -> dict[str, float]:
    """Median seconds of each phase; communication is what forward and backward take longer when the ranks talk."""
    talking, silent = [], []
    for _ in range(steps):
        for talk, kind in ((True, talking), (False, silent)):  # talk first: a static graph needs one whole step
            training.step(talk)  # whether buffers are sent is decided one step ahead, so the second one counts
            kind.append(training.step(talk))
    passes = [median(one["forward"] + one["backward"] for one in kind) for kind in (talking, silent)]
    return {
        "data": median(one["data"] for one in talking),
        "forward": median(one["forward"] for one in silent),
        "backward": median(one["backward"] for one in silent),
        "communication": max(0.0, passes[0] - passes[1]),
        "step": median(one["step"] for one in talking),
    }


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=64, help="pictures a rank")
    args, place = parser.parse_args(), here()
    dist.init_process_group(place.backend, timeout=timedelta(seconds=60))
    spent = budget(Training(set(), args.batch_size, place), steps=6)
    if place.rank == 0:
        print(", ".join(f"{phase} {1000 * seconds:.1f} ms" for phase, seconds in spent.items()))
    report("budget", place, spent=spent)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
