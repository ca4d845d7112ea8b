"""Tensor parallel and data parallel send as many bytes here. When does a rank wait for them?

Run:  python chain.py
      torchrun --standalone --nproc-per-node=2 chain.py --rounds 8
"""

import argparse
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.functional import gelu, linear
from torch.utils.flop_counter import FlopCounterMode

from counter import Collectives
from devices import Place, here, report, start
from stopwatch import in_turns, slowest
from timeline import phase, trace

BLOCKS = 3
WIDTH = 256
TOKENS = 4 * WIDTH  # in one step, of all ranks: then both ways send the same number of bytes


def add_up(part: Tensor, place: Place) -> Tensor:
    """The sum over all ranks. This rank computes nothing in the meantime."""
    total = part.clone()
    with phase("waiting", place):
        dist.all_reduce(total)
    return total


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(context, x: Tensor, place: Place) -> Tensor:
        context.place = place
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient: Tensor) -> tuple[Tensor, None]:
        return add_up(gradient, context.place), None


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(context, part: Tensor, place: Place) -> Tensor:
        return add_up(part, place)

    @staticmethod
    def backward(context, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class Block(nn.Module):
    """x + down(gelu(up(x))), or this rank's part of it."""

    def __init__(self, place: Place, parts: int) -> None:
        super().__init__()
        hidden = 4 * WIDTH // parts
        up = torch.randn(hidden, WIDTH, device=place.device)
        down = torch.randn(WIDTH, hidden, device=place.device)
        self.up = nn.Parameter(up / WIDTH)
        self.down = nn.Parameter(down / WIDTH)
        self.place = place
        self.parts = parts

    def network(self, x: Tensor) -> Tensor:
        hidden = gelu(linear(x, self.up))
        return linear(hidden, self.down)

    def forward(self, x: Tensor) -> Tensor:
        if self.parts == 1:
            return x + self.network(x)
        copied = Copy.apply(x, self.place)
        part = self.network(copied)
        return x + Sum.apply(part, self.place)


def blocks(place: Place, parts: int) -> nn.Sequential:
    layers = [Block(place, parts) for _ in range(BLOCKS)]
    return nn.Sequential(*layers)


def stepper(model: nn.Sequential, tokens: int, place: Place) -> Callable[[], None]:
    """A function that makes one step on so many tokens."""
    x = torch.randn(tokens, WIDTH, device=place.device, requires_grad=True)

    def step() -> None:
        with phase("forward", place):
            loss = model(x).square().mean()
        with phase("backward", place):
            loss.backward()
        model.zero_grad()

    return step


def data_parallel(place: Place) -> Callable[[], None]:
    """Each gradient is sent as soon as it is there; only the end of the step waits.

    The gradients stay sums over the ranks. A training needs their mean; but to divide sends
    nothing, no optimizer follows here, and tensor parallel has no such division to compare with.
    """
    model = blocks(place, 1)
    works: list[dist.Work] = []

    def send(parameter: Tensor) -> None:
        work = dist.all_reduce(parameter.grad, async_op=True)
        works.append(work)

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(send)
    passes = stepper(model, TOKENS // place.world_size, place)

    def step() -> None:
        passes()
        with phase("waiting", place):
            for work in works:
                work.wait()
        works.clear()

    return step


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8, help="comparisons of the ways")
    args = parser.parse_args()
    place = here()
    start(place)
    ways = {
        "tensor parallel": stepper(blocks(place, place.world_size), TOKENS, place),
        "data parallel": data_parallel(place),
        "alone": stepper(blocks(place, 1), TOKENS, place),
    }
    spans = {}
    sizes = {}
    work = {}  # floating-point operations in a step
    for name, step in ways.items():
        with Collectives() as seen, FlopCounterMode(display=False) as counted:
            step()
        work[name] = counted.get_total_flops()
        sizes[name] = [call.bytes for call in seen.calls]
        spans[name] = trace(step, ["forward", "backward", "waiting"], place)
    times = in_turns(ways, args.rounds, place.device, before=dist.barrier)
    for name, rounds in times.items():
        times[name] = [slowest(seconds, place.device) for seconds in rounds]
    if place.rank == 0:
        totals = {name: f"{sum(calls) / 2**20:.1f} MiB" for name, calls in sizes.items()}
        print(totals, "reduced")
    report("chain", place, spans=spans, sizes=sizes, work=work, seconds=times, blocks=BLOCKS)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
