"""A model with two heads, of which a step uses one: what DDP says, and what four remedies cost.

Run:  torchrun --standalone --nproc-per-node=2 unused.py
"""

import os

# Else the profiler reports on itself, and that there is no GPU.
os.environ.setdefault("KINETO_LOG_LEVEL", "6")

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

from devices import here, report, start

X = torch.ones(8, 64)  # a batch
# How DDP accepts the unused head, as arguments of `Trial`.
REMEDIES = {
    "find_unused_parameters": {"find_unused_parameters": True},
    "static_graph": {"static_graph": True},
    "freeze the head": {"freeze": True},
    "add 0 × its output": {"touch": True},
}


class TwoHeads(nn.Module):
    """Twelve layers, then one of two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(*[nn.Linear(64, 64) for _ in range(12)])
        self.cats = nn.Linear(64, 10)
        self.dogs = nn.Linear(64, 1000)

    def forward(self, x: Tensor, touch: bool = False) -> Tensor:
        hidden = self.trunk(x)
        loss = self.cats(hidden).square().mean()
        if touch:
            loss = loss + 0 * self.dogs(hidden).sum()
        return loss


def attempt(level: str) -> str:
    """What the second step says when DDP expects both heads, under this debug level."""
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = level
    dist.set_debug_level_from_env()
    ddp_model = DistributedDataParallel(TwoHeads())
    try:
        for _ in range(2):
            ddp_model(X).backward()
    except RuntimeError as error:
        return str(error)
    finally:
        os.environ["TORCH_DISTRIBUTED_DEBUG"] = "OFF"
        dist.set_debug_level_from_env()
    return ""


class Trial:
    """Steps with one remedy, and what is left of the unused head."""

    def __init__(self, freeze: bool = False, touch: bool = False, **settings: bool):
        self.model = TwoHeads()
        self.model.dogs.requires_grad_(not freeze)
        self.ddp_model = DistributedDataParallel(self.model, **settings)
        self.touch = touch

    def step(self) -> None:
        """Forward and backward, without an update."""
        loss = self.ddp_model(X, self.touch)
        loss.backward()

    def all_reduces(self) -> int:
        """How many all-reduces a step makes."""
        # One cycle of profiling: there are no events of an earlier one to clear.
        with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
            self.step()
        names = [event.name for event in profiler.events()]
        return sum(name.startswith("c10d::allreduce") for name in names)

    def gradient(self) -> str:
        """Of the unused head: "none" or "zeros"."""
        return "none" if self.model.dogs.weight.grad is None else "zeros"

    def moved(self) -> bool:
        """Whether weight decay moves the unused head."""
        weight = self.model.dogs.weight
        before = weight.detach().clone()
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, weight_decay=0.1)
        optimizer.step()
        return not torch.equal(before, weight)


@record
def main() -> None:
    # gloo on the CPU everywhere: so the messages read the same with and without GPUs.
    place = here(gpus=0)
    start(place)
    messages = {level: attempt(level) for level in ("OFF", "INFO")}

    costs = {}
    for name, settings in REMEDIES.items():
        trial = Trial(**settings)
        # The first steps differ: static_graph looks around in them, and DDP orders its buckets.
        for _ in range(3):
            trial.step()
        count = trial.all_reduces()
        gradient = trial.gradient()
        costs[name] = {"collectives": count, "gradient": gradient, "moved": trial.moved()}
        if place.rank == 0:
            print(f"{name:24}all-reduces a step: {count}, gradient of the unused head: {gradient}")
    report("unused", place, said=messages, costs=costs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
