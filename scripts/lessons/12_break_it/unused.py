"""A model with two heads, of which a step uses one: what DDP says, and what three remedies cost.

Run:  torchrun --standalone --nproc-per-node=2 unused.py
"""

import argparse
import os
import time
from datetime import timedelta

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else the profiler reports on itself, and that there is no GPU

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

from devices import here, report


class TwoHeads(nn.Module):
    """Twelve layers, then one of two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(*[nn.Linear(64, 64) for _ in range(12)])
        self.cats, self.dogs = nn.Linear(64, 10), nn.Linear(64, 1000)

    def forward(self, x: Tensor, touch: bool = False) -> Tensor:
        hidden = self.trunk(x)
        loss = self.cats(hidden).square().mean()
        return loss + 0 * self.dogs(hidden).sum() if touch else loss


def attempt(level: str) -> str:
    """What the second step says when DDP expects both heads, under this debug level."""
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = level
    dist.set_debug_level_from_env()
    ddp_model = DistributedDataParallel(TwoHeads())
    try:
        for _ in range(2):
            ddp_model(torch.ones(8, 64)).backward()
    except RuntimeError as error:
        return str(error)
    finally:
        os.environ["TORCH_DISTRIBUTED_DEBUG"] = "OFF"
        dist.set_debug_level_from_env()
    return ""


def cost(steps: int, freeze: bool = False, touch: bool = False, **settings: bool) -> dict:
    """Milliseconds and all-reduces of one step; the gradient of the unused head, and whether weight decay moves it."""
    model = TwoHeads()
    model.dogs.requires_grad_(not freeze)
    ddp_model, x = DistributedDataParallel(model, **settings), torch.ones(8, 64)
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        ddp_model(x, touch).backward()
        seconds.append(time.perf_counter() - start)
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:  # one cycle: nothing to clear
        ddp_model(x, touch).backward()
    events = [event for event in profiler.events() if event.name.startswith("c10d::allreduce")]
    gradient = model.dogs.weight.grad
    found, before = "none" if gradient is None else "zeros", model.dogs.weight.detach().clone()
    torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1).step()
    moved = not torch.equal(before, model.dogs.weight)
    numbers = {"ms": 1000 * sorted(seconds)[steps // 2], "collectives": len(events)}
    return numbers | {"gradient": found, "moved": moved}


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60, help="of which the median time is taken")
    args, place = parser.parse_args(), here()
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    said = {level: attempt(level) for level in ("OFF", "INFO")}
    remedies = {
        "find_unused_parameters": {"find_unused_parameters": True},
        "static_graph": {"static_graph": True},
        "freeze the head": {"freeze": True},
        "add 0 × its output": {"touch": True},
    }
    costs = {name: cost(args.steps, **settings) for name, settings in remedies.items()}
    for name, numbers in costs.items() if place.rank == 0 else ():
        print(
            f"{name:24}{numbers['ms']:6.1f} ms a step, all-reduces: {numbers['collectives']}, "
            f"gradient of the unused head: {numbers['gradient']}"
        )
    report("unused", place, said=said, costs=costs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
