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
from stopwatch import in_turns
from yardstick import apart

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


class Training:
    """One kind of model, arranged in one order, and trained on batches (steps, N, WIDTH)."""

    def __init__(self, kind: str, order: str, batches: Tensor, place: Place):
        torch.manual_seed(0)
        model = layers() if kind == "Sequential" else Network()
        self.model = model.to(place.device)
        self.backend = Counting()
        self.moments: list[float] = []
        self.run = arrange(self.model, order, self.backend, self.moments, batches[0])
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        self.batches = iter(batches)

    def step(self) -> None:
        """Train on the next batch, and note when in the backward pass each bucket was ready."""
        x = next(self.batches)
        self.moments.clear()  # only those of the last step are kept
        self.optimizer.zero_grad()
        loss = (self.run(x) - x).square().mean()
        begins = time.perf_counter()
        loss.backward()
        duration = time.perf_counter() - begins
        self.ready = [(moment - begins) / duration for moment in self.moments]  # from 0 to 1
        self.optimizer.step()
        loss.item()  # waits for the GPU

    def weights(self) -> Tensor:
        """A copy of all weights, as one vector."""
        vector = nn.utils.parameters_to_vector(self.model.parameters())
        return vector.detach()


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

    trainings = {order: Training(args.of, order, batches, place) for order in ORDERS[args.of]}
    untrained = trainings["wrap"].weights()
    ways = {order: training.step for order, training in trainings.items()}
    # Three steps of each do not count: the first ones compile, and settle.
    times = in_turns(ways, args.steps - 3, place.device, settle=3, before=dist.barrier)

    # Compiled or not, the weights must move alike. The first way compiles nothing.
    moved = trainings["wrap"].weights() - untrained
    rows = {}
    for order, training in trainings.items():
        weights = training.weights()
        row = {"graphs": len(training.backend.graphs), "ready": training.ready}
        row["saved"] = next(iter(training.run.state_dict()))  # its first name
        row["times"] = times[order]
        row["step"] = median(times[order])
        row["difference"] = apart(weights - untrained, moved, wrong=0 * moved)
        row["sum"] = weights.double().sum().item()
        rows[order] = row
        if place.rank == 0:
            milliseconds = 1000 * row["step"]
            print(f"{order:20}graphs: {row['graphs']}, {milliseconds:5.1f} ms a step")
    report("wrapped", place, ways=rows)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
