"""nn.DataParallel with two GPUs, with one, with none: is it the plain model, and is it faster?

Run:  python dp.py
      torchrun --standalone --nproc-per-node=1 dp.py     # one process for all GPUs
"""

import argparse
import copy
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

import byhand
from devices import here, report
from model import ResNet
from stopwatch import in_turns

CALLS = []  # device and shape of every input; not in the model, where they would go with the copy


class Noting(byhand.Network):
    """Notes what every call gets."""

    def forward(self, x: Tensor) -> Tensor:
        CALLS.append([str(x.device), *x.shape])
        return super().forward(x)


class Comparison(NamedTuple):
    calls: list  # what each copy got
    output: torch.device
    gap: float  # largest difference of scores and gradients


def compare(parallel: nn.DataParallel, plain: nn.Module, x: Tensor) -> Comparison:
    """One pass with DataParallel against one without."""
    CALLS.clear()
    scores = parallel(x)
    calls = sorted(CALLS)
    scores.square().mean().backward()
    expected = plain(x)
    expected.square().mean().backward()
    ours = [scores.to(x.device), *byhand.gradients(parallel.module)]
    theirs = [expected, *byhand.gradients(plain)]
    return Comparison(calls, scores.device, byhand.largest_gap(ours, theirs))


def train_step(network: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> None:
    optimizer.zero_grad()
    scores = network(x)
    nn.functional.cross_entropy(scores, y).backward()
    optimizer.step()


def stepper(network: nn.Module, batch_size: int, device: torch.device) -> Callable[[], None]:
    """A training step of `network`, always on the same batch."""
    x = torch.randn(batch_size, 3, 32, 32, device=device)
    y = torch.randint(10, (batch_size,), device=device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    return partial(train_step, network, optimizer, x, y)


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    place = here()
    gpus = torch.cuda.device_count()
    ids = [0] if gpus == 1 else [0, 1]  # two are asked for without any GPU, too

    # The same numbers? Once with the batch cut along its first dimension, once along its second.
    model = Noting().to(place.device, torch.float64)
    x = torch.randn(7, 5, 12).to(place.device, torch.float64)
    plain = copy.deepcopy(model)
    comparisons = []
    for dim in (0, 1):
        parallel = nn.DataParallel(model, device_ids=ids, output_device=ids[-1], dim=dim)
        comparisons.append(compare(parallel, plain, x))
    first, second = comparisons
    used = {"asked": ids, "used": parallel.device_ids, "output": str(second.output)}
    where = f"asked for {ids}, uses {parallel.device_ids}; output on {second.output}"
    print(f"{where}; calls counted: {model.calls}")
    print(f"dim=0 gives {first.calls}\ndim=1 gives {second.calls}")

    # Memory first, while only DataParallel has been at work.
    together = []
    for size in args.batch_sizes:
        network = nn.DataParallel(ResNet().to(place.device), ids)
        together.append(stepper(network, size, place.device))
        together[-1]()
    peaks = [torch.cuda.max_memory_allocated(gpu) for gpu in range(gpus)]

    # Is it faster? A step ends on the first GPU, with what the others gave: wait for that one.
    times = []
    for size, step in zip(args.batch_sizes, together, strict=True):
        plain_step = stepper(ResNet().to(place.device), size, place.device)
        ways = {"plain": plain_step, "parallel": step}
        times.append(in_turns(ways, args.steps, place.device))
        paces = [f"{size / median(own):,.0f} pictures/s {way}" for way, own in times[-1].items()]
        print(f"batches of {size}:", ", ".join(paces))

    shapes = [first.calls, second.calls]
    gap = max(first.gap, second.gap)
    results = {"shapes": shapes, "gap": gap, "calls": model.calls, "peaks": peaks}
    report("dp", place, **used, times=times, **results)


if __name__ == "__main__":
    main()
