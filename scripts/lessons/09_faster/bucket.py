"""How large should a bucket be, and what does a message cost? Torch's DDP and our own, over bucket sizes.

Run:  torchrun --standalone --nproc-per-node=2 bucket.py
"""

import argparse
import os
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import here, report
from hooks import Overlapping, network

SIZES = [2**power for power in range(10, 24)]  # bytes: 1 KiB to 8 MiB


def timed(work: Callable[[], object]) -> float:
    """Seconds of some work that ends on all ranks."""
    start = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def fit(seconds: list[float]) -> tuple[float, float]:
    """Alpha (s) and beta (s a byte) of alpha + beta · bytes, by least squares of the relative errors."""
    took = torch.tensor(seconds, dtype=torch.float64)
    rows = torch.stack([1 / took, torch.tensor(SIZES, dtype=torch.float64) / took], 1)
    alpha, beta = torch.linalg.lstsq(rows, torch.ones_like(took)[:, None]).solution.flatten().tolist()
    return alpha, beta


def training(model: nn.Module, x: Tensor) -> Callable[[], None]:
    """One training step of `model`, whether it is torch's DDP, our own, or a plain module that talks to nobody."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        model.zero_grad()  # ours keeps its views
        model(x).square().mean().backward()
        if isinstance(model, Overlapping):
            model.finish()
        optimizer.step()

    return step


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--buckets", default="1,2,4,25", help="MiB, with commas between")
    parser.add_argument("--rounds", type=int, default=6)
    args, place = parser.parse_args(), here()
    nccl = place.device if place.backend == "nccl" else None  # tells a barrier which GPU is meant
    dist.init_process_group(place.backend, timeout=timedelta(seconds=60), device_id=nccl)

    flats = [torch.zeros(size // 4, device=place.device) for size in SIZES]
    turns = [[timed(partial(dist.all_reduce, flat)) for flat in flats] for _ in range(4 * args.rounds)]
    messages = [median(seconds) for seconds in zip(*turns, strict=True)]  # all sizes in turns, so none has a bad time
    alpha, beta = fit(messages)

    torch.manual_seed(place.rank)
    x, models = torch.randn(64, 512, device=place.device), {("silent", 0.0): network(place)}
    for cap in map(float, args.buckets.split(",")):
        models["torch", cap] = DistributedDataParallel(network(place), bucket_cap_mb=cap, gradient_as_bucket_view=True)
        models["ours", cap] = Overlapping(network(place), cap)
    steps = {key: training(model, x) for key, model in models.items()}
    took = {key: [] for key in steps}
    for n in range(args.rounds + 2):
        for key, step in list(steps.items())[:: 1 if n % 2 else -1]:  # in turns, so that neither always comes first
            dist.barrier()  # "silent" waits for nobody: its slower rank must not hold up the next one
            took[key].append(timed(step))
    took = {key: seconds[2:] for key, seconds in took.items()}  # DDP puts its buckets in order after the first step

    weights = {key: nn.utils.parameters_to_vector(model.parameters()) for key, model in models.items()}
    gap = max((weights["torch", at] - weights["ours", at]).abs().max().item() for who, at in took if who == "ours")
    ratios = [ours / torchs for ours, torchs in zip(took["ours", cap], took["torch", cap], strict=True)]  # the last cap
    steps = [{"who": who, "mb": at, "seconds": median(seconds)} for (who, at), seconds in took.items()]
    numbers = {"gap": gap, "ratios": ratios, "bytes": weights["silent", 0.0].nbytes}
    numbers["units"] = torch.cuda.device_count() or (os.cpu_count() or 1) / torch.get_num_threads()
    if place.rank == 0:
        print(f"a message costs {1e6 * alpha:.0f} µs and {1e3 * 2**20 * beta:.2f} ms a MiB")
        print(f"our DDP / torch's, buckets of {cap:g} MiB: {median(ratios):.2f} of the time")
    report("bucket", place, sizes=SIZES, messages=messages, steps=steps, alpha=alpha, beta=beta, **numbers)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
