"""Under DDP each rank compiles on its own. Where do the others wait for the slowest compiler?

Run:  python warmup.py
      torchrun --standalone --nproc-per-node=2 warmup.py           # they wait in the training
      torchrun --standalone --nproc-per-node=2 warmup.py --warm    # they wait before it
"""

import argparse
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.fx import GraphModule
from torch.nn.parallel import DistributedDataParallel

from devices import here, report, start

LIMIT = 3.0  # seconds that a rank waits for another one in the training
PATIENCE = 60.0  # seconds that it waits before the training
STEPS = 4


class Compiler:
    """A stand-in for a compiler: it leaves each graph as it is, after `seconds`."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self.graphs = 0

    def __call__(self, graph: GraphModule, inputs: list[Tensor]) -> Callable:
        time.sleep(self.seconds)
        self.graphs += 1
        return graph.forward


def loss_of(model: nn.Module, x: Tensor) -> Tensor:
    return (model(x) - x).square().mean()


def warm_up(model: DistributedDataParallel, x: Tensor) -> None:
    """Let every rank compile, and send nothing. Then wait for the slowest, patiently."""
    patient = dist.new_group(timeout=timedelta(seconds=PATIENCE))
    with model.no_sync():
        loss_of(model, x).backward()
    model.zero_grad()  # a warm-up takes no step
    dist.barrier(patient)


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warm", action="store_true", help="compile before the training")
    parser.add_argument("--seconds", type=float, default=6, help="of rank 1's compiler")
    args = parser.parse_args()
    place = here(gpus=0)  # gloo on the CPU everywhere: this is about who waits
    start(place, LIMIT)
    compiler = Compiler(args.seconds if place.rank == 1 else 0)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16))
    model = DistributedDataParallel(torch.compile(model, backend=compiler))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    torch.manual_seed(place.rank)  # each rank has batches of its own
    batches = torch.randn(STEPS, 32, 16)

    if args.warm:
        warm_up(model, batches[0])
    before = compiler.graphs
    for x in batches:
        optimizer.zero_grad()
        loss_of(model, x).backward()  # DDP averages here: every rank waits for every other
        optimizer.step()

    weights = nn.utils.parameters_to_vector(model.parameters()).detach()
    graphs = {"before": before, "training": compiler.graphs - before}
    report("warmup", place, graphs=graphs, weights=weights.tolist())
    if place.rank == 0:
        print(f"graphs compiled before the training: {before}, in it: {graphs['training']}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
