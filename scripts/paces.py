"""Paces for bench.py, each in processes of its own: of ranks that talk or do not, of layouts, recipes, compiled code.

Run:  torchrun --standalone --nproc-per-node=2 paces.py ranks ResNet-9 --ways stock tuned silent
      torchrun --standalone --nproc-per-node=1 paces.py layouts
      torchrun --standalone --nproc-per-node=2 paces.py recipes
      torchrun --standalone --nproc-per-node=1 paces.py compiled
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).resolve().parent / "lessons"))

import budget
from devices import here
from dtypes import units
from loader import augment, normalise
from model import Residual, ResNet, convolution
from tune import CHANGES


def resnet9(width: int = 16) -> nn.Sequential:
    """The network of the first CIFAR-10 speed records, by width: its own has 64 channels in the first layer."""
    return nn.Sequential(
        convolution(3, width),
        *(convolution(width, 2 * width), nn.MaxPool2d(2), Residual(2 * width)),
        *(convolution(2 * width, 4 * width), nn.MaxPool2d(2)),
        *(convolution(4 * width, 8 * width), nn.MaxPool2d(2), Residual(8 * width)),
        *(nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(8 * width, 10)),
    )


def small_cnn(first: int = 16) -> nn.Sequential:
    layers = [convolution(3, first), nn.MaxPool2d(2), convolution(first, 2 * first), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2 * first * 8 * 8, 10))


NETWORKS: dict[str, Callable[[], nn.Module]] = {"ResNet": ResNet, "ResNet-9": resnet9, "small CNN": small_cnn}


def tuned(model: nn.Module) -> nn.Module:
    """DDP as lesson 09 leaves it."""
    ddp_model = DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)
    ddp_model.broadcast_buffers = False  # as an argument it has another name in newer torch
    return ddp_model


WAYS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "stock": DistributedDataParallel,
    "lesson": partial(DistributedDataParallel, gradient_as_bucket_view=True, static_graph=True),  # of lesson 06
    "tuned": tuned,
    "silent": nn.Identity,
    "alone": nn.Identity,
    "two threads": nn.Identity,
}


def in_bf16(model: nn.Module) -> None:
    """From now on the forward pass computes in bf16 where that is safe, as in fast.py; backward follows by itself."""
    forward = torch.autocast("cpu", torch.bfloat16)(model.forward)
    model.forward = lambda x: forward(x).float()  # the loss is fp32


class Training:
    """Training steps as the lessons' programs take them, on random pictures."""

    def __init__(self, model: nn.Module, layout: torch.memory_format, way: Callable[[nn.Module], nn.Module]):
        model = model.to(memory_format=layout)
        self.optimizer, self.layout = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9), layout
        self.run = model if way is nn.Identity else way(model)

    def step(self, batch: int) -> None:
        x, y = torch.randint(256, (batch, 3, 32, 32), dtype=torch.uint8), torch.randint(10, (batch,))
        x = normalise(augment(x)).contiguous(memory_format=self.layout)
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.run(x), y).backward()
        self.optimizer.step()

    def seconds(self, batch: int, steps: int = 1) -> float:
        start = time.perf_counter()
        for _ in range(steps):
            self.step(batch)
        return time.perf_counter() - start


def ranks(network: str, ways: list[str], rounds: int, batch: int = 64) -> dict[str, list[float]]:
    """Pictures a second of two ranks, `batch` each, and of one rank with as many pictures in all, in turn."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    trainings = {way: Training(NETWORKS[network](), torch.channels_last, WAYS[way]) for way in ways}
    paces: dict[str, list[float]] = {way: [] for way in ways}
    steps = {"ResNet": 8, "ResNet-9": 4, "small CNN": 40}[network]  # some two seconds
    for n in range(rounds + 1):
        for way in ways if n % 2 else ways[::-1]:
            pair = way not in ("alone", "two threads")
            torch.set_num_threads(2 if way == "two threads" else 1)
            dist.barrier()
            busy = pair or dist.get_rank() == 0
            took = torch.tensor(trainings[way].seconds(batch if pair else 2 * batch, steps if busy else 0))
            dist.all_reduce(took, dist.ReduceOp.MAX)  # the slower rank counts
            if n:  # the first round warms up
                paces[way].append(2 * batch * steps / took.item())
    return paces


def layouts(rounds: int, batch: int = 128) -> dict:
    """Pictures a second on one core: plain fp32; channels last, and in bf16 where the CPU computes in it."""
    bf16 = units(torch.device("cpu"))["bf16"]
    kinds = {"plain": torch.contiguous_format, "tuned": torch.channels_last}
    trainings = {name: Training(ResNet(), layout, nn.Identity) for name, layout in kinds.items()}
    if bf16:
        in_bf16(trainings["tuned"].run)
    paces: dict[str, list[float]] = {name: [] for name in kinds}
    for n in range(rounds + 1):
        for name, training in trainings.items():
            took = training.seconds(batch, 4)
            if n:
                paces[name].append(4 * batch / took)
    return {"bf16": bf16, **paces}


def recipes(rounds: int, batch: int = 64, steps: int = 8) -> dict:
    """Pictures a second of two ranks: as textbooks write DDP; lesson 09's recipe; the recipe compiled. In turn."""
    dist.init_process_group("gloo")
    bf16 = units(torch.device("cpu"))["bf16"]
    options = {"textbook": set(), "recipe": set(CHANGES), "compiled": set(CHANGES)}
    trainings = {name: budget.Training(chosen, batch, here()) for name, chosen in options.items()}
    if bf16:
        for name in ("recipe", "compiled"):
            in_bf16(trainings[name].model.module)
    trainings["compiled"].model.compile()
    paces: dict[str, list[float]] = {name: [] for name in options}
    for n in range(rounds + 1):
        for name, training in trainings.items():
            training.step()  # after the others, caches are cold
            dist.barrier()
            start = time.perf_counter()
            for _ in range(steps):
                training.step()
            took = torch.tensor(time.perf_counter() - start)
            dist.all_reduce(took, dist.ReduceOp.MAX)  # the slower rank counts
            if n:  # the first round warms up, and compiles
                paces[name].append(2 * batch * steps / took.item())
    return {"bf16": bf16, **paces}


def compiled(batch: int = 128, steps: int = 8) -> dict:
    """Seconds of the first step; how many times as fast as eager later ones are, in turn; what the cache lacked."""
    from torch._dynamo.utils import counters

    eager = Training(ResNet(), torch.contiguous_format, nn.Identity)
    training = Training(ResNet(), torch.contiguous_format, torch.compile)
    first = training.seconds(batch)
    graphs, misses = counters["stats"]["unique_graphs"], counters["inductor"]["fxgraph_cache_miss"]
    assert graphs, "torch.compile was called, and nothing was compiled"
    for one in (eager, training):
        one.seconds(batch, 2)
    ratios = [eager.seconds(batch) / training.seconds(batch) for _ in range(steps)]
    return {"first": first, "pace": median(ratios), "graphs": graphs, "misses": misses}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["ranks", "layouts", "recipes", "compiled"])
    parser.add_argument("network", nargs="?", choices=NETWORKS)
    parser.add_argument("--ways", nargs="+", choices=WAYS)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.what == "ranks":
        found = ranks(args.network, args.ways, args.rounds)
    elif args.what == "recipes":
        found = recipes(args.rounds)
    else:
        found = layouts(args.rounds) if args.what == "layouts" else compiled()
    if not dist.is_initialized() or dist.get_rank() == 0:
        Path("paces.json").write_text(json.dumps(found))
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
