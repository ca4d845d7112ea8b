"""Seconds of a step of a tiny CNN on two ranks: in our loop, and in those of four frameworks.

Run:  python -m course.measure frameworks     # makes an environment for it, and starts it there

Same network, batch and optimizer, the same arguments of DDP, and the same weights in the end: all
asserted. Each framework is used as its guide begins, with DDP as it is by default, Lightning's
Trainer stripped of all that it can leave out. So the loop of ours that is compared with them is the
one with the same DDP ("stock"); "tuned", with lesson 09's arguments, is compared with that alone.
"""

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import repeat
from pathlib import Path

import ignite.distributed as idist
import torch
import torch.distributed as dist
from accelerate import Accelerator
from ignite.engine import create_supervised_trainer
from lightning import Fabric, LightningModule, Trainer
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector
from torch.optim import Optimizer

from fast import tuned


@dataclass
class Batches:
    """The same batch, `length` times: a loader that costs nothing."""

    batch: tuple[Tensor, Tensor]
    length: int

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return repeat(self.batch, self.length)


def ours(
    model: nn.Module,
    optimizer: Optimizer,
    batches: Batches,
    wrap: Callable[[nn.Module], nn.Module],
) -> None:
    model = wrap(model)
    for x, y in batches:
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()


def accelerate(model: nn.Module, optimizer: Optimizer, batches: Batches) -> None:
    accelerator = Accelerator(cpu=True)
    model, optimizer = accelerator.prepare(model, optimizer)
    for x, y in batches:
        optimizer.zero_grad()
        accelerator.backward(cross_entropy(model(x), y))
        optimizer.step()


def fabric(model: nn.Module, optimizer: Optimizer, batches: Batches) -> None:
    fabric = Fabric(accelerator="cpu", strategy="ddp", devices=dist.get_world_size())
    fabric.launch()
    model, optimizer = fabric.setup(model, optimizer)
    for x, y in batches:
        optimizer.zero_grad()
        fabric.backward(cross_entropy(model(x), y))
        optimizer.step()


def ignite(model: nn.Module, optimizer: Optimizer, batches: Batches) -> None:
    model = idist.auto_model(model)
    optimizer = idist.auto_optim(optimizer)
    trainer = create_supervised_trainer(model, optimizer, cross_entropy)
    trainer.run(batches)


def lightning(model: nn.Module, optimizer: Optimizer, batches: Batches) -> None:
    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model

        def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
            x, y = batch
            return cross_entropy(self.model(x), y)

        def configure_optimizers(self) -> Optimizer:
            return optimizer

    two_ranks = {"accelerator": "cpu", "strategy": "ddp", "devices": dist.get_world_size()}
    trainer = Trainer(**two_ranks, max_epochs=1, barebones=True)
    trainer.fit(Module(), batches)


LOOPS = {
    "stock": partial(ours, wrap=DistributedDataParallel),
    "stock again": partial(ours, wrap=DistributedDataParallel),
    "tuned": partial(ours, wrap=tuned),
    "accelerate": accelerate,
    "lightning": lightning,
    "pytorch-ignite": ignite,
    "fabric": fabric,
}


def network() -> nn.Sequential:
    """x (N, 3, 32, 32) → ten scores each (N, 10); the same start every time."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 4, 2, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 10),
    )


# What DDP was told: each loop's DDP must have the same, but for our tuned one.
ARGUMENTS = (
    "broadcast_buffers",
    "bucket_bytes_cap",
    "find_unused_parameters",
    "gradient_as_bucket_view",
    "static_graph",
)
wrapped: list[DistributedDataParallel] = []  # by each loop's DDP, the newest last
original_init = DistributedDataParallel.__init__


def remembering_init(self: DistributedDataParallel, *arguments, **options) -> None:
    original_init(self, *arguments, **options)
    wrapped.append(self)


def told() -> dict[str, object]:
    """The arguments of the newest DDP."""
    return {name: getattr(wrapped[-1], name) for name in ARGUMENTS}


def train(name: str, batches: Batches, settle: int) -> tuple[float, Tensor]:
    """Seconds of a step in one of the loops, after `settle` steps, and the weights at its end."""
    wrapped.clear()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    # No matter who writes the loop, a step is over when the optimizer's is.
    times: list[float] = []
    optimizer.register_step_post_hook(lambda *_: times.append(time.perf_counter()))
    dist.barrier()
    LOOPS[name](model, optimizer, batches)
    assert len(times) == len(batches), f"{name}: {len(times)} steps"
    seconds = times[-1] - times[settle - 1]
    return seconds / (len(batches) - settle), parameters_to_vector(model.parameters())


def compare(rounds: int, seed: int, batches: Batches, settle: int) -> dict[str, list[float]]:
    """Seconds of a step of each loop in each round, in random order; the first round warms up."""
    chance = random.Random(seed)
    seconds: dict[str, list[float]] = {name: [] for name in LOOPS}
    order = list(LOOPS)
    for number in range(rounds + 1):
        chance.shuffle(order)
        weights = {}
        arguments = {}
        for name in order:
            a_step, weights[name] = train(name, batches, settle)
            arguments[name] = told()
            if number > 0:
                seconds[name].append(a_step)
        for name in order:
            same = torch.allclose(weights[name], weights["stock"], atol=1e-4)
            assert same, f"{name} has learnt something else"
            alike = arguments[name] == arguments["stock"]
            assert alike or name == "tuned", f"{name} has told DDP {arguments[name]}"
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the order in each round")
    parser.add_argument("--steps", type=int, default=60)
    settle = "steps that do not count: DDP begins slowly"
    parser.add_argument("--settle", type=int, default=10, help=settle)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(dist.get_rank())
    x = torch.randn(8, 3, 32, 32)
    y = torch.randint(10, (8,))
    batches = Batches((x, y), args.settle + args.steps)
    DistributedDataParallel.__init__ = remembering_init
    seconds = compare(args.rounds, args.seed, batches, args.settle)

    if dist.get_rank() == 0:
        versions = {}
        for name in ("accelerate", "lightning", "pytorch-ignite"):
            versions[name] = version(name)
        versions["fabric"] = version("lightning")
        numbers = {"seconds": seconds, "versions": versions}
        Path("frameworks.json").write_text(json.dumps(numbers))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
