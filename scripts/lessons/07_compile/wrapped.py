"""torch.compile before DDP, or after it? Graphs, time, and when each bucket is ready.

Run:  python wrapped.py
      torchrun --standalone --nproc-per-node=2 wrapped.py
"""

import argparse
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report
from speed import Counting

WIDTH, DEPTH = 512, 3  # a weight of 512 × 512 numbers is 1 MiB: with `bucket_cap_mb=1`, a bucket of its own
OWN, PLAIN = (
    ["wrap", "compile, wrap", "wrap, compile", "compile, call, wrap"],
    ["wrap, compile", "compile, wrap", "compile(), wrap"],
)


def layers() -> nn.Sequential:
    return nn.Sequential(*(layer for _ in range(DEPTH) for layer in (nn.Linear(WIDTH, WIDTH), nn.GELU())))


class Network(nn.Module):
    """The same layers, in a class of our own. x (N, WIDTH) → (N, WIDTH)."""

    def __init__(self):
        super().__init__()
        self.layers = layers()

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def train(way: str, batches: Tensor, place: Place) -> tuple[dict, Tensor]:
    """Graphs, seconds a step, and when in the last backward (0 to 1) each bucket was ready; then all weights."""
    torch.compiler.reset()
    torch.manual_seed(0)
    model = (layers() if "Sequential" in way else Network()).to(place.device)
    backend, ready, took = Counting(), [], []

    def note(state: None, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        ready.append(time.perf_counter())
        return allreduce_hook(state, bucket)

    if "compile()" in way:
        model.compile(backend=backend)
    inner = torch.compile(model, backend=backend) if "compile, " in way else model
    if "call" in way:
        inner(batches[0])
    ddp_model = DistributedDataParallel(inner, bucket_cap_mb=1)
    ddp_model.register_comm_hook(None, note)
    run = torch.compile(ddp_model, backend=backend) if "wrap, compile" in way else ddp_model
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x in batches:
        ready.clear()
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = (run(x) - x).square().mean()
        begin = time.perf_counter()
        loss.backward()
        end = time.perf_counter()
        optimizer.step()
        loss.item()  # waits for the GPU
        took.append(time.perf_counter() - start)
    ready = [(moment - begin) / (end - begin) for moment in ready]
    numbers = {"graphs": len(backend.graphs), "step": sorted(took[3:])[len(took[3:]) // 2], "ready": ready}
    return numbers, torch.cat([p.detach().flatten() for p in model.parameters()])


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--timeout", type=float, default=60, help="seconds that a rank waits for the others")
    args, place = parser.parse_args(), here()
    dist.init_process_group(place.backend, timeout=timedelta(seconds=args.timeout))
    torch.manual_seed(place.rank)  # each rank has batches of its own
    batches = torch.randn(args.steps, 256, WIDTH, device=place.device)
    ways, weights = {}, {}
    for way in [*OWN, *(f"Sequential: {way}" for way in PLAIN)]:
        ways[way], weights[way] = train(way, batches, place)
        difference, total = (weights[way] - weights["wrap"]).abs().max().item(), weights[way].double().sum().item()
        ways[way] |= {"difference": difference, "sum": total}
        if place.rank == 0:
            print(f"{way:28}graphs: {ways[way]['graphs']}, {1000 * ways[way]['step']:5.1f} ms a step")
    report("wrapped", place, ways=ways)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
