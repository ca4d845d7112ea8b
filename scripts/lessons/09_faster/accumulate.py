"""Several small batches make one step. How often do the ranks talk, and how often need they?

Run:  torchrun --standalone --nproc-per-node=2 accumulate.py
"""

import argparse
import time
from contextlib import nullcontext
from datetime import timedelta
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import here, report
from hooks import network

WAYS = [(way, parts) for parts in (4, 8) for way in ("every part", "no_sync")]


def counting(calls: list[int], bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """What DDP does with a bucket anyway, and a note of its bytes."""
    calls.append(bucket.buffer().nbytes)
    return allreduce_hook(None, bucket)


def step(way: str, ddp_model: nn.Module, optimizer: torch.optim.Optimizer, parts: tuple[Tensor, ...]) -> None:
    """One optimizer step over all parts; their gradients add up, so each loss is divided by the number of parts."""
    optimizer.zero_grad()
    for number, x in enumerate(parts):
        quiet = way == "no_sync" and number < len(parts) - 1
        with ddp_model.no_sync() if quiet else nullcontext():  # around the forward pass, too
            loss = ddp_model(x).square().mean() / len(parts)
            loss.backward()  # the last one sends the sum of all
    optimizer.step()


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--timeout", type=float, default=60)
    args, place = parser.parse_args(), here()
    nccl = place.device if place.backend == "nccl" else None  # tells a barrier which GPU is meant
    dist.init_process_group(place.backend, timeout=timedelta(seconds=args.timeout), device_id=nccl)

    calls: dict[tuple[str, int], list[int]] = {way: [] for way in WAYS}
    took: dict[tuple[str, int], list[float]] = {way: [] for way in WAYS}
    # Said aloud, 25 MiB holds for the first bucket too, else 1 MiB: so a backward pass sends one message.
    options = {"bucket_cap_mb": 25, "gradient_as_bucket_view": True}
    models = {way: DistributedDataParallel(network(place), **options) for way in WAYS}
    optimizers = {way: torch.optim.SGD(model.parameters(), lr=0.01) for way, model in models.items()}
    for way, model in models.items():
        model.register_comm_hook(calls[way], counting)
    torch.manual_seed(1 + place.rank)
    for n in range(args.rounds + 2):
        x = torch.randn(128, 512, device=place.device)
        for way, model in list(models.items())[:: 1 if n % 2 else -1]:  # in turns, so that neither always comes first
            calls[way].clear()
            dist.barrier()
            start = time.perf_counter()
            step(way[0], model, optimizers[way], x[: 16 * way[1]].split(16))
            if place.device.type == "cuda":
                torch.cuda.synchronize()
            if n > 1:  # DDP puts its buckets in order after the first step
                took[way].append(time.perf_counter() - start)

    weights = {way: nn.utils.parameters_to_vector(model.parameters()).detach() for way, model in models.items()}
    rows = [{"way": way, "parts": parts, "seconds": took[way, parts]} for way, parts in WAYS]
    for row in rows:
        key = row["way"], row["parts"]
        row["calls"], row["bytes"] = len(calls[key]), sum(calls[key])
        row["gap"] = (weights[key] - weights["every part", row["parts"]]).abs().max().item()
        if place.rank == 0:
            sent = f"{row['calls']} all-reduces, {row['bytes'] / 2**20:.1f} MiB"
            print(f"{key[1]} parts, {key[0]:11} {sent:27} {1000 * median(took[key]):6.1f} ms, off by {row['gap']:.1e}")
    report("accumulate", place, rows=rows)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
