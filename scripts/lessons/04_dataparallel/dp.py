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
from yardstick import apart

CALLS = []  # device and shape of every input; not in the model, where they would go with the copy


class Noting(byhand.Network):
    """Notes what every call gets."""

    def forward(self, x: Tensor) -> Tensor:
        device = str(x.device)
        CALLS.append([device, *x.shape])
        return super().forward(x)


class Comparison(NamedTuple):
    calls: list  # what each copy got
    output: torch.device
    gap: float  # of scores and gradients


def compare(parallel: nn.DataParallel, plain: nn.Module, x: Tensor) -> Comparison:
    """One pass with DataParallel against one without."""
    CALLS.clear()
    scores = parallel(x)
    calls = sorted(CALLS)
    loss = scores.square().mean()
    loss.backward()
    expected = plain(x)
    expected_loss = expected.square().mean()
    expected_loss.backward()
    same_place = scores.to(x.device)
    ours = [same_place, *byhand.gradients(parallel.module)]
    theirs = [expected, *byhand.gradients(plain)]
    disordered = [tensor.flip(0) for tensor in theirs]
    gap = apart(ours, theirs, wrong=disordered)
    return Comparison(calls, scores.device, gap)


def train_step(network: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> int:
    """Returns how many pictures it has learnt from."""
    optimizer.zero_grad()
    scores = network(x)
    loss = nn.functional.cross_entropy(scores, y)
    loss.backward()
    optimizer.step()
    return len(scores)


def stepper(network: nn.Module, batch_size: int, device: torch.device) -> Callable[[], int]:
    """A training step of `network`, always on the same batch."""
    shape = (batch_size, 3, 32, 32)
    x = torch.randn(shape, device=device)
    y = torch.randint(10, (batch_size,), device=device)
    weights = network.parameters()
    optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9)
    return partial(train_step, network, optimizer, x, y)


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    place = here()
    gpus = torch.cuda.device_count()
    ids = [0, 1]  # two are asked for without any GPU, too
    if gpus == 1:
        ids = [0]

    # The same numbers? Once with the batch cut along its first dimension, once along its second.
    model = Noting()
    model.to(place.device, torch.float64)
    x = torch.randn(7, 5, 12)
    x = x.to(place.device, torch.float64)
    plain = copy.deepcopy(model)
    last = ids[-1]
    comparisons = []
    for dim in (0, 1):
        parallel = nn.DataParallel(model, device_ids=ids, output_device=last, dim=dim)
        comparison = compare(parallel, plain, x)
        comparisons.append(comparison)
    first, second = comparisons
    used = parallel.device_ids
    output = str(second.output)
    devices = {"asked": ids, "used": used, "output": output}
    where = f"asked for {ids}, uses {used}; output on {output}"
    print(f"{where}; calls counted: {model.calls}")
    print("dim=0 gives", first.calls)
    print("dim=1 gives", second.calls)

    # Memory first, before any plain ResNet has been at work.
    together = []
    for size in args.batch_sizes:
        network = ResNet().to(place.device)
        network = nn.DataParallel(network, ids)
        step = stepper(network, size, place.device)
        step()
        together.append(step)
    peaks = [torch.cuda.max_memory_allocated(gpu) for gpu in range(gpus)]

    # Is it faster? A step ends on the first GPU, with what the others gave: wait for that one.
    times = []
    pictures = []
    pairs = zip(args.batch_sizes, together, strict=True)
    for size, step in pairs:
        network = ResNet().to(place.device)
        plain_step = stepper(network, size, place.device)
        ways = {"plain": plain_step, "parallel": step}
        pictures.append({way: run() for way, run in ways.items()})
        seconds = in_turns(ways, args.steps, place.device)
        times.append(seconds)
        paces = []
        for way, own in seconds.items():
            pace = size / median(own)
            paces.append(f"{pace:,.0f} pictures/s {way}")
        print(f"batches of {size}:", ", ".join(paces))

    shapes = [first.calls, second.calls]
    gap = max(first.gap, second.gap)
    results = {"shapes": shapes, "gap": gap, "calls": model.calls}
    report("dp", place, **devices, times=times, pictures=pictures, **results, peaks=peaks)


if __name__ == "__main__":
    main()
