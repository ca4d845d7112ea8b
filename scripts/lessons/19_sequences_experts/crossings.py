"""What happens at the border between ranks in forward, and what in backward.

Import it: each of these is a step of a model that autograd can go back through.
"""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function


def on_wire(tensor: Tensor) -> Tensor:
    """The tensor where it can be sent from: gloo's send and recv know the CPU's memory alone."""
    return tensor.cpu() if dist.get_backend() == "gloo" else tensor


def send(tensor: Tensor, rank: int) -> None:
    dist.send(on_wire(tensor.contiguous()), rank)


def receive(like: Tensor, rank: int) -> Tensor:
    """A tensor from `rank`, of the same shape as `like`."""
    arrived = torch.empty_like(on_wire(like), memory_format=torch.contiguous_format)
    dist.recv(arrived, rank)
    return arrived.to(like.device)


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
