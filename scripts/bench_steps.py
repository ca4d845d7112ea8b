"""Training steps for bench.py, each kind in processes of its own.

Run:  export PYTHONPATH=$(echo $PWD/scripts/lessons/* | tr ' ' ':')    # as bench.py does
      cd scripts
      torchrun --standalone --nproc-per-node=2 bench_steps.py ranks ResNet --ways stock silent
      torchrun --standalone --nproc-per-node=1 bench_steps.py layouts
      torchrun --standalone --nproc-per-node=2 bench_steps.py recipes
      torchrun --standalone --nproc-per-node=1 bench_steps.py compiled
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import budget
from devices import here
from dtypes import units
from fast import tuned
from loader import augment, normalise
from model import Residual, ResNet, convolution
from stopwatch import in_turns, seconds, slowest
from tune import CHANGES, several

CPU = torch.device("cpu")
Paces = dict[str, list[float]]  # pictures a second of each way in each round


def resnet9(width: int = 16) -> nn.Sequential:
    """The network of the first CIFAR-10 speed records, where the first layer has 64 channels."""
    return nn.Sequential(
        convolution(3, width),
        convolution(width, 2 * width),
        nn.MaxPool2d(2),
        Residual(2 * width),
        convolution(2 * width, 4 * width),
        nn.MaxPool2d(2),
        convolution(4 * width, 8 * width),
        nn.MaxPool2d(2),
        Residual(8 * width),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(8 * width, 10),
    )


def small_cnn(width: int = 16) -> nn.Sequential:
    return nn.Sequential(
        convolution(3, width),
        nn.MaxPool2d(2),
        convolution(width, 2 * width),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * width * 8 * 8, 10),
    )


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "ResNet": ResNet,
    "ResNet-9": resnet9,
    "small CNN": small_cnn,
}
STEPS = {"ResNet": 8, "ResNet-9": 4, "small CNN": 40}  # in a round: some two seconds


def unwrapped(model: nn.Module) -> nn.Module:
    """The model as it is: it talks to nobody."""
    return model


# What becomes of a network on two ranks. "lesson" is DDP as in lesson 06.
WAYS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "stock": DistributedDataParallel,
    "lesson": partial(DistributedDataParallel, gradient_as_bucket_view=True, static_graph=True),
    "tuned": tuned,
    "silent": unwrapped,
    "alone": unwrapped,
    "two threads": unwrapped,
}
ONE_PROCESS = {"alone", "two threads"}  # rank 0 takes as many pictures as both ranks together


def in_bf16(model: nn.Module) -> None:
    """From now on the forward pass computes in bf16 where that is safe, as in fast.py.

    Backward follows by itself.
    """
    forward = torch.autocast("cpu", torch.bfloat16)(model.forward)
    model.forward = lambda x: forward(x).float()  # the loss is fp32


class Training:
    """Training steps as the lessons' programs take them, on random pictures."""

    def __init__(self, model: nn.Module, layout: torch.memory_format, way: Callable = unwrapped):
        self.layout = layout
        self.model = model.to(memory_format=layout)
        self.optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
        self.run = way(self.model)

    def steps(self, batch: int, number: int = 1) -> None:
        """So many steps, each on `batch` new pictures."""
        for _ in range(number):
            x = torch.randint(256, (batch, 3, 32, 32), dtype=torch.uint8)
            y = torch.randint(10, (batch,))
            x = normalise(augment(x)).contiguous(memory_format=self.layout)
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.run(x), y)
            loss.backward()
            self.optimizer.step()


def turn(training: Training, way: str, batch: int, steps: int) -> None:
    """This rank's part in some steps on `batch` pictures of each of two ranks."""
    torch.set_num_threads(2 if way == "two threads" else 1)
    if way not in ONE_PROCESS:
        training.steps(batch, steps)
    elif dist.get_rank() == 0:
        training.steps(2 * batch, steps)


def ranks(network: str, ways: list[str], rounds: int, batch: int = 64) -> Paces:
    """Two ranks, `batch` pictures each, and one rank with as many pictures in all."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    steps = STEPS[network]
    turns = {}
    for way in ways:
        training = Training(NETWORKS[network](), torch.channels_last, WAYS[way])
        turns[way] = partial(turn, training, way, batch, steps)
    times = in_turns(turns, rounds, CPU, before=dist.barrier)

    paces = {}
    for way in ways:
        slower = [slowest(own, CPU) for own in times[way]]
        paces[way] = [2 * batch * steps / taken for taken in slower]
    return paces


def layouts(rounds: int, batch: int = 128, steps: int = 4) -> dict:
    """One core: plain fp32; channels last, and in bf16 where the CPU computes in it."""
    bf16 = units(CPU)["bf16"]
    plain = Training(ResNet(), torch.contiguous_format)
    tuned = Training(ResNet(), torch.channels_last)
    if bf16:
        in_bf16(tuned.model)
    turns = {
        "plain": partial(plain.steps, batch, steps),
        "tuned": partial(tuned.steps, batch, steps),
    }
    times = in_turns(turns, rounds, CPU)
    paces = {name: [batch * steps / taken for taken in times[name]] for name in turns}
    return {"bf16": bf16, **paces}


def recipes(rounds: int, batch: int = 64, steps: int = 8) -> dict:
    """Two ranks: DDP as textbooks write it; lesson 09's recipe; the recipe compiled."""
    dist.init_process_group("gloo")
    bf16 = units(CPU)["bf16"]
    place = here()
    trainings = {
        "textbook": budget.Training(set(), batch, place),
        "recipe": budget.Training(set(CHANGES), batch, place),
        "compiled": budget.Training(set(CHANGES), batch, place),
    }
    trainings["compiled"].model.compile()
    turns = {name: partial(several, training, steps) for name, training in trainings.items()}
    times = in_turns(turns, rounds, CPU, before=dist.barrier)  # the first round compiles

    paces: Paces = {}
    for name, own in times.items():
        slower = [slowest(taken, CPU) for taken in own]
        paces[name] = [2 * batch * steps / taken for taken in slower]
    return {"bf16": bf16, **paces}


def compiled(batch: int = 128, rounds: int = 8) -> dict:
    """Seconds of the first step; how many times as fast as eager the later ones are.

    `graphs`: how many were compiled; `misses`: how many of them the cache lacked.
    """
    from torch._dynamo.utils import counters

    eager = Training(ResNet(), torch.contiguous_format)
    fused = Training(ResNet(), torch.contiguous_format, torch.compile)
    first = seconds(partial(fused.steps, batch), CPU)
    graphs = counters["stats"]["unique_graphs"]
    misses = counters["inductor"]["fxgraph_cache_miss"]
    assert graphs, "torch.compile was called, and nothing was compiled"
    turns = {"eager": partial(eager.steps, batch), "compiled": partial(fused.steps, batch)}
    times = in_turns(turns, rounds, CPU, settle=2)
    pairs = zip(times["eager"], times["compiled"], strict=True)
    pace = median(slow / quick for slow, quick in pairs)
    return {"first": first, "pace": pace, "graphs": graphs, "misses": misses}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["ranks", "layouts", "recipes", "compiled"])
    parser.add_argument("network", nargs="?", choices=NETWORKS)
    parser.add_argument("--ways", nargs="+", choices=WAYS)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.kind == "ranks":
        numbers = ranks(args.network, args.ways, args.rounds)
    elif args.kind == "layouts":
        numbers = layouts(args.rounds)
    elif args.kind == "recipes":
        numbers = recipes(args.rounds)
    else:
        numbers = compiled()
    if not dist.is_initialized():
        Path("bench_steps.json").write_text(json.dumps(numbers))
        return
    if dist.get_rank() == 0:
        Path("bench_steps.json").write_text(json.dumps(numbers))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
