"""What happens at the border between ranks in forward, and what in backward.

Import it: each class is a step of a model that autograd can go back through.
"""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function


def on_wire(tensor: Tensor) -> Tensor:
    """The tensor where it can be sent from: gloo's send and recv know the CPU's memory alone."""
    if dist.get_backend() == "gloo":
        return tensor.cpu()
    return tensor


def send(tensor: Tensor, rank: int) -> None:
    outgoing = on_wire(tensor.contiguous())
    dist.send(outgoing, rank)


def receive(like: Tensor, rank: int) -> Tensor:
    """A tensor from `rank`, of the same shape as `like`."""
    arrived = torch.empty_like(on_wire(like), memory_format=torch.contiguous_format)
    dist.recv(arrived, rank)
    return arrived.to(like.device)


def add_up(layers: list[dict[str, Tensor]], names: str) -> None:
    """All-reduce the gradients of these matrices, in one tensor."""
    chosen = []
    for layer in layers:
        for name in names.split():
            chosen.append(layer[name].grad)
    flat = torch.cat([each.flatten() for each in chosen])
    dist.all_reduce(flat)
    sizes = [each.numel() for each in chosen]
    for gradient, total in zip(chosen, flat.split(sizes), strict=True):
        gradient.copy_(total.view_as(gradient))


class Copy(Function):
    """Tensor parallel: every rank goes on with the same x; backward adds up their gradients."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class Sum(Function):
    """Tensor parallel: the ranks' parts are added up; backward gives each the same gradient."""

    @staticmethod
    def forward(ctx, part: Tensor) -> Tensor:
        part = part.clone()
        dist.all_reduce(part)
        return part

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient.clone()


class Exchange(Function):
    """All-to-all: the first give[0] rows go to rank 0, the next give[1] to rank 1, and so on.

    get[0] rows come from rank 0, and so on; backward sends the gradients the same way back.
    """

    @staticmethod
    def forward(ctx, rows: Tensor, give: list[int], get: list[int]) -> Tensor:
        ctx.give = give
        ctx.get = get
        received = rows.new_empty(sum(get), *rows.shape[1:])
        dist.all_to_all_single(received, rows.contiguous(), get, give)
        return received

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple:
        returned = gradient.new_empty(sum(ctx.give), *gradient.shape[1:])
        dist.all_to_all_single(returned, gradient.contiguous(), ctx.give, ctx.get)
        return returned, None, None
