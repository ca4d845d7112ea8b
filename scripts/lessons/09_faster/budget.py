"""Where do the milliseconds of a step go? Data, forward, backward, communication, step: one by one.

Run:  python budget.py
      torchrun --standalone --nproc-per-node=2 budget.py --batch-size 64
"""

import argparse
import time
from contextlib import nullcontext
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report, start
from dtypes import FORMATS, best_dtype, units
from loader import augment, normalise
from model import ResNet


class Training:
    """The course's ResNet on pictures of noise, one step at a time.

    `options`: names of changes in tune.py. None is a textbook's step: fp32, picture by picture.
    """

    def __init__(self, options: set[str], batch_size: int, place: Place):
        self.options = options
        self.batch_size = batch_size
        self.place = place

        torch.manual_seed(0)
        last = "channels last" in options
        self.layout = torch.channels_last if last else torch.contiguous_format
        model = ResNet().to(place.device, memory_format=self.layout)
        view = "bucket view" in options
        self.model = DistributedDataParallel(model, gradient_as_bucket_view=view, static_graph=view)
        # Set here and not as an argument: that would leave out the buffers' sync at the start, too.
        self.model.broadcast_buffers = "own statistics" not in options
        fused = True if "fused" in options else None  # None: torch chooses
        self.optimizer = torch.optim.SGD(model.parameters(), 0.01, 0.9, nesterov=True, fused=fused)

        best, _ = best_dtype(units(place.device))
        dtype = FORMATS[best if "number format" in options else "fp32"]
        kind = place.device.type
        self.cast = torch.autocast(kind, dtype, enabled=dtype != torch.float32)
        self.scaler = torch.amp.GradScaler(kind, enabled=dtype == torch.float16)

        # A byte a colour: CIFAR-10's training set takes 154 MB, and fits beside the model.
        home = place.device if "whole batches" in options else "cpu"
        size = (2048, 3, 32, 32)
        self.x = torch.randint(256, size, dtype=torch.uint8, device=home)
        self.y = torch.randint(10, (2048,), device=home)

    def batch(self) -> tuple[Tensor, Tensor]:
        """Pictures (N, 3, 32, 32), shifted, mirrored, normalised; labels (N,); on the device."""
        device = self.place.device
        chosen = torch.randint(len(self.x), (self.batch_size,), device=self.x.device)
        parts = [chosen] if "whole batches" in self.options else chosen.split(1)
        pictures = [normalise(augment(self.x[part])) for part in parts]
        x = torch.cat(pictures).to(device)
        y = self.y[chosen].to(device)
        return x.contiguous(memory_format=self.layout), y

    def now(self, wait: bool) -> float:
        """The clock's seconds; with `wait`, not before the GPU has done what it was given."""
        if wait:
            torch.get_device_module(self.place.device).synchronize()
        return time.perf_counter()

    def step(self, talk: bool = True, laps: bool = True) -> dict[str, float]:
        """Seconds of each phase.

        Without `talk` the ranks do as much work, but on weights that drift apart. Without `laps`
        nobody waits for a GPU between phases, as in a real training: the seconds mean little there.
        """
        begun = self.now(wait=False)
        x, y = self.batch()
        loaded = self.now(wait=laps)
        with nullcontext() if talk else self.model.no_sync():
            self.optimizer.zero_grad()
            with self.cast:
                loss = cross_entropy(self.model(x), y)
            forward_done = self.now(wait=laps)
            self.scaler.scale(loss).backward()
            backward_done = self.now(wait=laps)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        stepped = self.now(wait=laps)
        return {
            "data": loaded - begun,
            "forward": forward_done - loaded,
            "backward": backward_done - forward_done,
            "step": stepped - backward_done,
        }


def typical(laps: list[dict[str, float]], *phases: str) -> float:
    """Median seconds of these phases together, over several steps."""
    sums = [sum(lap[phase] for phase in phases) for lap in laps]
    return median(sums)


def budget(training: Training, steps: int) -> dict[str, float]:
    """Median seconds of each phase. Communication: what the others take longer while ranks talk."""
    talking = []
    silent = []
    for _ in range(steps):
        # With talk first, since a static graph needs one whole step. Each kind twice, and the
        # second one counts: whether buffers are sent is decided one step ahead.
        training.step(talk=True)
        talking.append(training.step(talk=True))
        training.step(talk=False)
        silent.append(training.step(talk=False))
    passes_talking = typical(talking, "forward", "backward")
    passes_silent = typical(silent, "forward", "backward")
    return {
        "data": typical(talking, "data"),
        "forward": typical(silent, "forward"),
        "backward": typical(silent, "backward"),
        "communication": max(0.0, passes_talking - passes_silent),
        "step": typical(talking, "step"),
    }


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=64, help="pictures a rank")
    args = parser.parse_args()
    start(place)

    training = Training(set(), args.batch_size, place)
    spent = budget(training, steps=6)
    if place.rank == 0:
        phases = [f"{phase} {1000 * seconds:.1f} ms" for phase, seconds in spent.items()]
        print(", ".join(phases))
    report("budget", place, spent=spent)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
