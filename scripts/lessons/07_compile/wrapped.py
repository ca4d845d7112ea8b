"""torch.compile before DDP, or after it? Graphs, time, and when each bucket is ready.

Run:  python wrapped.py
      torchrun --standalone --nproc-per-node=2 wrapped.py --of Sequential
"""

import argparse
import time
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.elastic.multiprocessing.errors import record
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report, start
from speed import Counting

WIDTH = 512  # a weight of 512 × 512 numbers is 1 MiB: with `bucket_cap_mb=1` it fills a bucket
DEPTH = 3

# What is done to the model, in this order: one of our own class, and a plain Sequential.
ORDERS = {
    "Network": ["wrap", "compile, wrap", "wrap, compile", "compile, call, wrap"],
    "Sequential": ["wrap", "wrap, compile", "compile, wrap", "compile(), wrap"],
}


def layers() -> nn.Sequential:
    """x (N, WIDTH) → (N, WIDTH), in DEPTH linear layers."""
    parts: list[nn.Module] = []
    for _ in range(DEPTH):
        parts += [nn.Linear(WIDTH, WIDTH), nn.GELU()]
    return nn.Sequential(*parts)


class Network(nn.Module):
    """The same layers, in a class of our own. x (N, WIDTH) → (N, WIDTH)."""

    def __init__(self):
        super().__init__()
        self.layers = layers()

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def send(moments: list[float], bucket: dist.GradBucket) -> Future[Tensor]:
    """A hook for DDP: its usual all-reduce of a bucket, after noting when the bucket was ready."""
    moments.append(time.perf_counter())
    return allreduce_hook(None, bucket)


def arrange(
    model: nn.Module, order: str, backend: Counting, moments: list[float], x: Tensor
) -> nn.Module:
    """Do to a model what `order` says, action by action; `send` will fill `moments`."""
    for action in order.split(", "):
        if action == "compile":
            model = torch.compile(model, backend=backend)
        elif action == "compile()":
            model.compile(backend=backend)
        elif action == "call":
            model(x)
        elif action == "wrap":
            # Not below 1, which the compiler expects of the first bucket: an AssertionError.
            model = DistributedDataParallel(model, bucket_cap_mb=1)
            model.register_comm_hook(moments, send)
    return model


def train(kind: str, order: str, batches: Tensor, place: Place) -> tuple[dict, Tensor]:
    """Train one kind of model, arranged in one order, on batches (steps, N, WIDTH).

    Returns the graphs, the seconds a step, when in the last backward pass, from 0 to 1, each bucket
    was ready, and the first name in the state_dict; and all weights in the end, as one vector.
    """
    torch.compiler.reset()
    torch.manual_seed(0)
    model = layers() if kind == "Sequential" else Network()
    model = model.to(place.device)
    backend = Counting()
    moments: list[float] = []
    run = arrange(model, order, backend, moments, batches[0])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    times = []
    for x in batches:
        moments.clear()  # only those of the last step are kept
        step_begins = time.perf_counter()
        optimizer.zero_grad()
        loss = (run(x) - x).square().mean()
        backward_begins = time.perf_counter()
        loss.backward()
        backward_ends = time.perf_counter()
        optimizer.step()
        loss.item()  # waits for the GPU
        times.append(time.perf_counter() - step_begins)

    duration = backward_ends - backward_begins
    ready = [(moment - backward_begins) / duration for moment in moments]
    names = list(run.state_dict())
    row = {"graphs": len(backend.graphs), "ready": ready, "saved": names[0]}
    row["times"] = times[3:]  # the first steps compile, and settle
    row["step"] = median(times[3:])
    weights = nn.utils.parameters_to_vector(model.parameters())
    return row, weights.detach()


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--of", choices=ORDERS, default="Network", help="kind of model")
    parser.add_argument("--steps", type=int, default=8)
    args = parser.parse_args()
    place = here()
    start(place)
    torch.manual_seed(place.rank)  # each rank has batches of its own
    batches = torch.randn(args.steps, 256, WIDTH, device=place.device)

    # Compiled or not, the weights must end up the same. The first way compiles nothing.
    rows = {}
    for order in ORDERS[args.of]:
        row, weights = train(args.of, order, batches, place)
        if order == "wrap":
            reference = weights
        difference = (weights - reference).abs().max()
        row["difference"] = difference.item()
        row["sum"] = weights.double().sum().item()
        rows[order] = row
        if place.rank == 0:
            milliseconds = 1000 * row["step"]
            print(f"{order:20}graphs: {row['graphs']}, {milliseconds:5.1f} ms a step")
    report("wrapped", place, ways=rows)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
