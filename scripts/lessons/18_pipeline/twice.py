"""Two batches, one update: gradients that are added up over two calls of the library's `step`.

Run:  torchrun --standalone --nproc-per-node=2 twice.py
"""

import copy
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.functional import mse_loss

from devices import Place, here, report

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


@record
def main() -> None:
    place = here()._replace(device=torch.device("cpu"), backend="gloo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(4)]
    model = nn.Sequential(*layers).double()
    xs, ys = torch.randn(2, BATCHES, 16, WIDTH, dtype=torch.float64)
    size = len(layers) // place.world_size
    own = slice(size * place.rank, size * (place.rank + 1))

    firsts = []  # the first batch's own gradients, and those of both together
    both = [torch.zeros_like(weight) for weight in model[own].parameters()]
    for x, y in zip(xs, ys, strict=True):
        mean = mse_loss(model(x), y) / BATCHES
        gradients = torch.autograd.grad(mean, list(model[own].parameters()))
        firsts.append(gradients)
        both = [total + each for total, each in zip(both, gradients, strict=True)]

    errors = {}
    ratios = {}
    for scale in (True, False):
        stage = copy.deepcopy(model[own])
        gradients = accumulated(stage, xs, ys, place, scale)
        pairs = list(zip(gradients, both, strict=True))
        errors[str(scale)] = max(((own - full).norm() / full.norm()).item() for own, full in pairs)
        # Which share of each batch is in the result? Two unknowns, many equations.
        sides = [torch.cat([each.flatten() for each in first]) for first in firsts]
        found = torch.cat([each.flatten() for each in gradients])
        shares = torch.linalg.lstsq(torch.stack(sides, 1), found[:, None]).solution
        ratios[str(scale)] = shares.flatten().tolist()
    if place.rank == 0:
        for scale, error in errors.items():
            print(f"scale_grads={scale}: the gradients are off by {error:.1%}")
    report("twice", place, errors=errors, shares=ratios, parts=PARTS)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
