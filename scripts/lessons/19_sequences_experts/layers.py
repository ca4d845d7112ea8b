"""A small stack of layers, whole: attention and two matrices each, without norms.

Import it: fiveways.py cuts it.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

HEADS = 4
Weights = list[dict[str, Tensor]]  # of each layer: q, k, v, o, up, down


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention; [sequences, positions, heads, numbers] → the same."""
    heads_first = [each.transpose(1, 2) for each in (q, k, v)]
    return scaled_dot_product_attention(*heads_first, is_causal=True).transpose(1, 2)


def to_experts(x: Tensor, experts: int) -> Tensor:
    """[sequences, positions, d] → [experts, tokens, d]: position 0 to expert 0, 1 to 1, …"""
    return x.unflatten(1, (-1, experts)).permute(2, 0, 1, 3).flatten(1, 2)


def from_experts(rows: Tensor, sequences: int) -> Tensor:
    """The way back."""
    return rows.unflatten(1, (sequences, -1)).permute(1, 2, 0, 3).flatten(1, 2)


def feed_forward(x: Tensor, layer: dict[str, Tensor]) -> Tensor:
    """The two matrices; where there is a pair for each expert, a token's position says which."""
    if layer["up"].dim() == 2:
        return torch.relu(x @ layer["up"]) @ layer["down"]
    rows = to_experts(x, len(layer["up"]))
    return from_experts(torch.relu(rows @ layer["up"]) @ layer["down"], len(x))


def same(x: Tensor) -> Tensor:
    return x


def stack(
    x: Tensor,
    layers: Weights,
    attention: Callable = attend,
    feed: Callable = feed_forward,
    enter: Callable = same,
    leave: Callable = same,
) -> Tensor:
    """The output of all layers; the cut ones give their own four functions."""
    size = x.shape[-1] // HEADS
    for layer in layers:
        inside = enter(x)
        heads = [(inside @ layer[name]).unflatten(-1, (-1, size)) for name in "qkv"]
        x = x + leave(attention(*heads).flatten(-2) @ layer["o"])
        x = x + leave(feed(enter(x), layer))
    return x


def loss_of(y: Tensor) -> Tensor:
    """A sum over everything, so that parts of it may simply be added up."""
    return y.square().sum() / 2


def make(count: int, width: int, experts: int | None, device: torch.device) -> Weights:
    """Random layers, with a pair of matrices for each of `experts`; None: one for all tokens."""
    shapes = {name: (width, width) for name in "qkvo"}
    several = () if experts is None else (experts,)
    shapes["up"] = (*several, width, 4 * width)
    shapes["down"] = (*several, 4 * width, width)
    layers = []
    for _ in range(count):
        layer = {}
        for name, shape in shapes.items():
            weights = torch.randn(shape, dtype=torch.float64) / shape[-2] ** 0.5
            layer[name] = weights.to(device)
        layers.append(layer)
    return layers


def leaves(layers: Weights) -> Weights:
    """Copies that collect gradients of their own."""
    return [
        {name: each.detach().clone().requires_grad_() for name, each in layer.items()}
        for layer in layers
    ]


def gradients(layers: Weights) -> Weights:
    return [{name: each.grad for name, each in layer.items()} for layer in layers]
