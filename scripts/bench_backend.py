"""A training step on two ranks: under DDP on gloo, on lesson 21's backend, and without any talk.

Run:  python scripts/bench.py backend     # builds the backend, and starts this
"""

import argparse
import json
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bench_steps import NETWORKS
from ownbackends import register
from stopwatch import in_turns, slowest

CPU = torch.device("cpu")
BATCH = 64


def mlp(width: int = 1024, layers: int = 8) -> nn.Sequential:
    """x (N, 1024) → (N, 1024): 34 MB of gradients, and little to compute for each of them."""
    parts: list[nn.Module] = []
    for _ in range(layers):
        parts += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


class Training:
    """Steps on one batch. All ways do the same work, but for what they send."""

    def __init__(self, network: str, group: dist.ProcessGroup | None):
        torch.manual_seed(0)
        if network == "MLP":
            model = mlp()
            self.x = torch.randn(BATCH, 1024)
        else:
            model = NETWORKS[network]().to(memory_format=torch.channels_last)
            pictures = torch.randn(BATCH, 3, 32, 32)
            self.x = pictures.contiguous(memory_format=torch.channels_last)
        self.y = torch.randint(10, (BATCH,))
        self.optimizer = torch.optim.SGD(model.parameters(), 0.001)
        self.run: nn.Module = model
        if group:
            options = {"gradient_as_bucket_view": True, "static_graph": True}
            self.run = DistributedDataParallel(model, process_group=group, **options)

    def step(self) -> None:
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.run(self.x), self.y).backward()
        self.optimizer.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", choices=["MLP", *NETWORKS])
    parser.add_argument("--rounds", type=int, default=60)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    backend = register("nearby")
    assert backend == "nearby", "the backend was not built"
    ours = dist.new_group(backend=backend)
    groups = {"silent": None, "gloo": dist.group.WORLD, "C++": ours}
    ways = {name: Training(args.network, group).step for name, group in groups.items()}
    meet = partial(dist.barrier, group=ours)
    times = in_turns(ways, args.rounds, CPU, settle=3, before=meet)
    seconds = {name: [slowest(own, CPU) for own in each] for name, each in times.items()}
    if dist.get_rank() == 0:
        Path("bench_backend.json").write_text(json.dumps({"seconds": seconds}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
