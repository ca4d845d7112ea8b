"""How large should a bucket be, and what does a message cost? Torch's DDP and our own.

Run:  torchrun --standalone --nproc-per-node=2 bucket.py
"""

import argparse
import os
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report, start
from hooks import Overlapping
from stopwatch import in_turns
from wire import gradients, network
from yardstick import apart

SIZES = [2**power for power in range(10, 24)]  # bytes: 1 KiB to 8 MiB

Way = tuple[str, float]  # who sends, "torch" or "ours", and MiB in a bucket
SILENT: Way = ("silent", 0.0)  # nobody sends


def sweep(rounds: int, device: torch.device) -> dict[int, list[float]]:
    """Seconds of a bare all-reduce of each size, all sizes in turns: none has a bad time."""
    flats = [torch.zeros(size // 4, device=device) for size in SIZES]
    messages = {flat.nbytes: partial(dist.all_reduce, flat) for flat in flats}
    return in_turns(messages, rounds, device)


def fit(seconds: list[float]) -> tuple[float, float]:
    """Alpha (s) and beta (s a byte) of alpha + beta · bytes: least squares of relative errors."""
    measured = torch.tensor(seconds, dtype=torch.float64)
    sizes = torch.tensor(SIZES, dtype=torch.float64)
    # An error of 10 % should weigh the same at every size, so each equation is divided by its time.
    inverse = 1 / measured
    equations = torch.stack([inverse, sizes / measured], dim=1)
    ones = torch.ones(len(SIZES), 1, dtype=torch.float64)
    solution = torch.linalg.lstsq(equations, ones).solution
    alpha, beta = solution.flatten().tolist()
    return alpha, beta


def networks(caps: list[float], place: Place) -> dict[Way, nn.Module]:
    """One network, with the same start, for every way to send its gradients."""
    models: dict[Way, nn.Module] = {SILENT: network(place)}
    for cap in caps:
        options = {"bucket_cap_mb": cap, "gradient_as_bucket_view": True}
        model = network(place)
        models["torch", cap] = DistributedDataParallel(model, **options)
        model = network(place)
        models["ours", cap] = Overlapping(model, cap)
    return models


def training(model: nn.Module, x: Tensor) -> Callable[[], None]:
    """One training step of a model, whether it is torch's DDP, our own, or talks to nobody."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        model.zero_grad()  # ours keeps its views
        loss = model(x).square().mean()
        loss.backward()
        if isinstance(model, Overlapping):
            model.finish()
        optimizer.step()

    return step


def units() -> float:
    """How many ranks can compute at the same time: one a GPU, or one for its threads' cores."""
    if torch.cuda.is_available():
        return torch.cuda.device_count()
    cores = os.cpu_count() or 1
    return cores / torch.get_num_threads()


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--buckets", default="1,2,4,25", help="MiB, with commas between")
    parser.add_argument("--rounds", type=int, default=6)
    args = parser.parse_args()
    caps = [float(cap) for cap in args.buckets.split(",")]
    start(place)

    # What does one message cost?
    sent = sweep(4 * args.rounds, place.device)
    messages = [median(sent[size]) for size in SIZES]
    alpha, beta = fit(messages)
    fits = []
    for first in range(3):  # of each third of the rounds
        third = [median(sent[size][first::3]) for size in SIZES]
        fits.append(fit(third))

    # What does a step cost, with each size of bucket? All ways train on the same noise.
    torch.manual_seed(place.rank)
    x = torch.randn(64, 512, device=place.device)
    models = networks(caps, place)
    steps = {way: training(model, x) for way, model in models.items()}
    # DDP puts its buckets in order after the first step, so two rounds do not count. "silent" waits
    # for nobody: without a barrier, its slower rank would hold up the next model.
    times = in_turns(steps, args.rounds, place.device, settle=2, before=dist.barrier)
    rows = []
    for (who, mb), seconds in times.items():
        rows.append({"who": who, "mb": mb, "seconds": seconds})

    # Are the last step's gradients the same, whatever the buckets are?
    alone = gradients(models[SILENT])
    gaps = []
    for cap in caps:
        ours = gradients(models["ours", cap])
        torchs = gradients(models["torch", cap])
        gaps.append(apart(ours, torchs, alone))

    # Both DDPs side by side with the last size, round by round.
    last = caps[-1]
    pairs = zip(times["ours", last], times["torch", last], strict=True)
    ratios = [ours / torchs for ours, torchs in pairs]

    if place.rank == 0:
        print(f"a message costs {1e6 * alpha:.0f} µs and {1e3 * 2**20 * beta:.2f} ms a MiB")
        print(f"our DDP / torch's, buckets of {last:g} MiB: {median(ratios):.2f} of the time")
    line = {"sizes": SIZES, "messages": messages, "alpha": alpha, "beta": beta}
    numbers = {
        "fits": fits,
        "steps": rows,
        "gap": max(gaps),
        "bytes": sum(each.nbytes for each in alone),
        "units": units(),
    }
    report("bucket", place, **line, **numbers)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
