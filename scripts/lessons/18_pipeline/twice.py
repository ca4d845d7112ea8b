"""Two batches, one update: gradients that are added up over two calls of the library's `step`.

Run:  torchrun --standalone --nproc-per-node=2 twice.py
"""

import copy
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.functional import mse_loss

from devices import Place, here, report, start
from yardstick import apart

PARTS = 4
WIDTH = 32
BATCHES = 2


def accumulated(
    stage: nn.Module, xs: Tensor, ys: Tensor, place: Place, scale: bool
) -> list[Tensor]:
    """This stage's gradients after two steps; what is meant is the mean of both batches' loss."""
    divisor = BATCHES if scale else BATCHES * PARTS

    def loss(output: Tensor, target: Tensor) -> Tensor:
        return mse_loss(output, target) / divisor

    part = PipelineStage(stage, place.rank, place.world_size, place.device)
    schedule = Schedule1F1B(part, PARTS, loss_fn=loss, scale_grads=scale)
    for x, y in zip(xs, ys, strict=True):
        if place.rank == 0:
            schedule.step(x)
        else:
            schedule.step(target=y)
    return [parameter.grad for parameter in stage.parameters()]


def flat(tensors: Sequence[Tensor]) -> Tensor:
    """All numbers of the tensors in one row."""
    rows = [each.flatten() for each in tensors]
    return torch.cat(rows)


def shares_in(gradients: list[Tensor], each_batch: list[Sequence[Tensor]]) -> list[float]:
    """Which share of each batch's gradients is in these? Two unknowns, many equations."""
    columns = [flat(of_batch) for of_batch in each_batch]
    matrix = torch.stack(columns, 1)
    right_side = flat(gradients)[:, None]
    shares = torch.linalg.lstsq(matrix, right_side).solution
    return shares.flatten().tolist()


@record
def main() -> None:
    place = here(gpus=0)
    torch.set_num_threads(1)
    start(place)
    torch.manual_seed(0)
    layers = []
    for _ in range(4):
        linear = nn.Linear(WIDTH, WIDTH)
        layers.append(nn.Sequential(linear, nn.GELU()))
    model = nn.Sequential(*layers).double()
    xs, ys = torch.randn(2, BATCHES, 16, WIDTH, dtype=torch.float64)
    size = len(layers) // place.world_size
    begin = size * place.rank
    own_layers = model[begin : begin + size]
    weights = list(own_layers.parameters())

    # What one process computes: the gradients of each batch, and their sum.
    each_batch = []
    both = [torch.zeros_like(weight) for weight in weights]
    for x, y in zip(xs, ys, strict=True):
        output = model(x)
        mean = mse_loss(output, y) / BATCHES
        gradients = torch.autograd.grad(mean, weights)
        each_batch.append(gradients)
        for total, gradient in zip(both, gradients, strict=True):
            total.add_(gradient)

    errors = {}
    shares = {}
    for scale in (True, False):
        stage = copy.deepcopy(own_layers)
        gradients = accumulated(stage, xs, ys, place, scale)
        errors[str(scale)] = apart(gradients, both, each_batch[0])
        shares[str(scale)] = shares_in(gradients, each_batch)
    if place.rank == 0:
        for scale, error in errors.items():
            print(f"scale_grads={scale}: the gradients are off by {error:.1%}")
    report("twice", place, errors=errors, shares=shares, parts=PARTS)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
