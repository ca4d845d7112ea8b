"""Seconds of a training step of a tiny CNN on two ranks: in our loop, and in those of four frameworks.

Run:  python scripts/bench.py frameworks     # makes an environment for it, and starts it there on two ranks

Same network, batch and optimizer, and the same weights in the end: asserted. Ours is DDP as lesson 09 leaves it; each
framework is used as its guide begins, Lightning's Trainer stripped of all that it can leave out.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
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
from torch.optim import Optimizer

from paces import tuned


@dataclass
class Batches:
    """The same batch, `length` times: a loader that costs nothing."""

    batch: tuple[Tensor, Tensor]
    length: int

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return repeat(self.batch, self.length)


def ours(model: nn.Module, optimizer: Optimizer, batches: Batches) -> None:
    model = tuned(model)
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
    model, optimizer = idist.auto_model(model), idist.auto_optim(optimizer)
    create_supervised_trainer(model, optimizer, cross_entropy).run(batches)


def lightning(model: nn.Module, optimizer: Optimizer, batches: Batches) -> None:
    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model

        def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
            return cross_entropy(self.model(batch[0]), batch[1])

        def configure_optimizers(self) -> Optimizer:
            return optimizer

    trainer = Trainer(accelerator="cpu", strategy="ddp", devices=dist.get_world_size(), max_epochs=1, barebones=True)
    trainer.fit(Module(), batches)


LOOPS = {"ours": ours, "accelerate": accelerate, "lightning": lightning, "pytorch-ignite": ignite, "fabric": fabric}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--settle", type=int, default=20, help="steps that do not count: DDP begins slowly")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(dist.get_rank())
    batch = torch.randn(8, 3, 32, 32), torch.randint(10, (8,))

    seconds: dict[str, list[float]] = {name: [] for name in LOOPS}
    for n in range(args.rounds + 1):
        weights = {}
        for name in LOOPS if n % 2 else reversed(LOOPS):
            torch.manual_seed(0)
            layers = [nn.Conv2d(3, 8, 4, 2, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveMaxPool2d(1)]
            model, times = nn.Sequential(*layers, nn.Flatten(), nn.Linear(8, 10)), []
            optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
            # Whoever writes the loop, one step is over when the optimizer's is.
            optimizer.register_step_post_hook(lambda *_, times=times: times.append(time.perf_counter()))
            dist.barrier()
            LOOPS[name](model, optimizer, Batches(batch, args.settle + args.steps))
            assert len(times) == args.settle + args.steps, f"{name}: {len(times)} steps"
            weights[name] = nn.utils.parameters_to_vector(model.parameters())
            if n:  # the first round warms up
                seconds[name].append((times[-1] - times[args.settle - 1]) / args.steps)
        for name, found in weights.items():
            assert torch.allclose(found, weights["ours"], atol=1e-4), f"{name} has learnt something else"
    if dist.get_rank() == 0:
        versions = {name: version("lightning" if name == "fabric" else name) for name in LOOPS if name != "ours"}
        Path("frameworks.json").write_text(json.dumps({"seconds": seconds, "versions": versions}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
