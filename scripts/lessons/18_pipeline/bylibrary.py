"""The pipeline of PyTorch's library beside our own `step`: are the gradients the same?

Run:  torchrun --standalone --nproc-per-node=2 bylibrary.py
"""

import copy
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.functional import mse_loss

from devices import Place, here, report, start
from dials import Clock
from pipeline import order, step
from yardstick import apart

PARTS = 4  # micro-batches
WIDTH = 32


def by_library(
    layers: nn.Module, x: Tensor, y: Tensor, place: Place, loss_fn: Callable | None
) -> list[Tensor | None]:
    """One step of 1F1B: the gradients of this rank's layers, None where there are none."""
    stage = PipelineStage(layers, place.rank, place.world_size, place.device)
    schedule = Schedule1F1B(stage, n_microbatches=PARTS, loss_fn=loss_fn)
    inputs = []
    extra = {}
    if place.rank == 0:  # the first stage gets the batch
        inputs = [x]
    if place.rank == place.world_size - 1:  # the last one compares
        extra = {"target": y}
    schedule.step(*inputs, **extra)
    return [weight.grad for weight in layers.parameters()]


@record
def main() -> None:
    place = here(gpus=0)
    torch.set_num_threads(1)
    start(place)
    torch.manual_seed(place.rank)
    layers = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()).double()
    torch.manual_seed(100)  # the same batch on all ranks
    x, y = torch.randn(2, 64, WIDTH, dtype=torch.float64)

    ours = copy.deepcopy(layers)
    actions = order("1F1B", place.rank, place.world_size, PARTS)
    step(ours, x, y, actions, place, Clock({}))
    wanted = [weight.grad for weight in ours.parameters()]

    gradients = by_library(copy.deepcopy(layers), x, y, place, mse_loss)
    added_up = [PARTS * each for each in wanted]  # wrong: the sum over the micro-batches
    gap = apart(gradients, wanted, added_up)

    without_loss = by_library(copy.deepcopy(layers), x, y, place, None)
    missing = sum(each is None for each in without_loss)
    report("bylibrary", place, gap=gap, weights=len(wanted), missing=missing)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
