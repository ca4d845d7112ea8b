"""Tensor parallel by hand: a network of two layers, each rank with its part of both.

Whole, cut, and cut with a mistake: are the output and the gradients those of one process?

Run:  python columnrow.py
      torchrun --standalone --nproc-per-node=2 columnrow.py
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.functional import gelu, linear

from counter import Collectives
from devices import Place, here, report, start
from yardstick import apart

BATCH = 128  # rows
WIDTH = 64
STEPS = 40


# region copy and sum
class Copy(torch.autograd.Function):
    """Forward: every rank has x already. Backward: add up what the ranks say about x."""

    @staticmethod
    def forward(context, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient: Tensor) -> Tensor:
        total = gradient.clone()
        dist.all_reduce(total)
        return total


class Sum(torch.autograd.Function):
    """Forward: add up the ranks' parts. Backward: every rank's part gets the whole gradient."""

    @staticmethod
    def forward(context, part: Tensor) -> Tensor:
        total = part.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(context, gradient: Tensor) -> Tensor:
        return gradient  # whole, for each part


# endregion


class Whole(nn.Module):
    """up, gelu, down: on one rank."""

    def __init__(self, up: Tensor, down: Tensor) -> None:
        super().__init__()
        self.up = nn.Parameter(up.clone())
        self.down = nn.Parameter(down.clone())

    def forward(self, x: Tensor) -> Tensor:
        hidden = gelu(linear(x, self.up))
        return linear(hidden, self.down)


class Part(Whole):
    """This rank's part of the same: some rows of `up`, and the columns of `down` that fit."""

    def __init__(self, up: Tensor, down: Tensor, place: Place, copy: bool = True) -> None:
        up_part = up.chunk(place.world_size, dim=0)[place.rank]
        down_part = down.chunk(place.world_size, dim=1)[place.rank]
        super().__init__(up_part, down_part)
        self.copy = copy

    def forward(self, x: Tensor) -> Tensor:
        if self.copy:
            x = Copy.apply(x)
        return Sum.apply(super().forward(x))


def random(rows: int, columns: int, place: Place) -> Tensor:
    """Made on the CPU, so that a GPU gets the same numbers."""
    return torch.randn(rows, columns, dtype=torch.float64).to(place.device)


def gap(value: Tensor, expected: Tensor) -> float:
    """How far a value is from one process's. The same rows in another order would be wrong."""
    return apart(value, expected, expected.flip(0))


def compare(model: Part, whole: Whole, x: Tensor, place: Place) -> dict:
    """How far a step's output and gradients are from one process's, and what the step sent."""
    x_whole = x.clone().requires_grad_()
    y_whole = whole(x_whole)
    y_whole.square().mean().backward()
    x_part = x.clone().requires_grad_()
    with Collectives() as seen:
        y_part = model(x_part)
        y_part.square().mean().backward()
    up_grad = whole.up.grad.chunk(place.world_size, dim=0)[place.rank]
    down_grad = whole.down.grad.chunk(place.world_size, dim=1)[place.rank]
    gaps = {
        "y": gap(y_part, y_whole),
        "dup": gap(model.up.grad, up_grad),
        "ddown": gap(model.down.grad, down_grad),
        "dx": gap(x_part.grad, x_whole.grad),
    }
    whole.zero_grad()
    return {"gaps": gaps, "calls": seen.calls}


def train(model: Whole, first: Tensor, x: Tensor, goal: Tensor) -> dict:
    """Some steps with a layer of its own in front of the network, which every rank holds whole."""
    front = nn.Parameter(first.clone())
    optimizer = torch.optim.Adam([front, *model.parameters()], lr=3e-3)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = (model(linear(x, front)) - goal).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    of_rank_0 = front.detach().clone()
    dist.broadcast(of_rank_0, src=0)
    with torch.no_grad():  # as if the front layer had been saved by rank 0 and loaded by all
        loaded = (model(linear(x, of_rank_0)) - goal).square().mean()
    return {"losses": losses, "apart": apart(front, of_rank_0, first), "loaded": loaded.item()}


@record
def main() -> None:
    place = here()
    start(place)
    torch.manual_seed(0)  # the same numbers on every rank
    x = random(BATCH, WIDTH, place)
    up = random(4 * WIDTH, WIDTH, place) / WIDTH**0.5
    down = random(WIDTH, 4 * WIDTH, place) / (4 * WIDTH) ** 0.5
    first = random(WIDTH, WIDTH, place) / WIDTH**0.5
    goal = random(BATCH, WIDTH, place)

    whole = Whole(up, down)
    compared = {}
    trained = {"one process": train(Whole(up, down), first, x, goal)}
    for name, copy in {"with Copy": True, "without Copy": False}.items():
        compared[name] = compare(Part(up, down, place, copy), whole, x, place)
        trained[name] = train(Part(up, down, place, copy), first, x, goal)
    if place.rank == 0:
        for name, outcome in compared.items():
            gaps = {key: f"{value:.1e}" for key, value in outcome["gaps"].items()}
            print(f"{name}:", gaps)
    kept = sum(each.numel() for each in Part(up, down, place).parameters())
    sizes = {"kept": kept, "numbers": up.numel() + down.numel(), "bytes": x.nbytes}
    report("columnrow", place, compared=compared, trained=trained, **sizes)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
