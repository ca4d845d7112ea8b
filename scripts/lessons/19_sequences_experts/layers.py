"""A small stack of layers, whole: attention and two matrices each, without norms.

Import it: fiveways.py cuts it.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from yardstick import apart

HEADS = 4
Weights = list[dict[str, Tensor]]  # of each layer: q, k, v, o, up, down


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention; [sequences, positions, heads, numbers] → the same."""
    heads_first = [each.transpose(1, 2) for each in (q, k, v)]
    out = scaled_dot_product_attention(*heads_first, is_causal=True)
    return out.transpose(1, 2)


def to_experts(x: Tensor, experts: int) -> Tensor:
    """[sequences, positions, d] → [experts, tokens, d]: position 0 to expert 0, 1 to 1, …"""
    in_turns = x.unflatten(1, (-1, experts))  # [sequences, turns, experts, d]
    experts_first = in_turns.permute(2, 0, 1, 3)
    return experts_first.flatten(1, 2)


def from_experts(rows: Tensor, sequences: int) -> Tensor:
    """The way back."""
    experts_first = rows.unflatten(1, (sequences, -1))  # [experts, sequences, turns, d]
    in_turns = experts_first.permute(1, 2, 0, 3)
    return in_turns.flatten(1, 2)


def feed_forward(x: Tensor, layer: dict[str, Tensor]) -> Tensor:
    """The two matrices; where there is a pair for each expert, a token's position says which."""
    up = layer["up"]
    down = layer["down"]
    if up.dim() == 2:
        hidden = torch.relu(x @ up)
        return hidden @ down
    rows = to_experts(x, len(up))
    hidden = torch.relu(rows @ up)
    return from_experts(hidden @ down, len(x))


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
        heads = []
        for name in "qkv":
            projected = inside @ layer[name]
            heads.append(projected.unflatten(-1, (-1, size)))
        attended = attention(*heads).flatten(-2)
        x = x + leave(attended @ layer["o"])
        fed = feed(enter(x), layer)
        x = x + leave(fed)
    return x


def loss_of(y: Tensor) -> Tensor:
    """A sum over everything, so that parts of it may simply be added up."""
    return y.square().sum() / 2


def make(count: int, width: int, experts: int | None, device: torch.device) -> Weights:
    """Random layers, with a pair of matrices for each of `experts`; None: one for all tokens."""
    shapes = {name: [width, width] for name in "qkvo"}
    shapes["up"] = [width, 4 * width]
    shapes["down"] = [4 * width, width]
    if experts is not None:
        shapes["up"].insert(0, experts)
        shapes["down"].insert(0, experts)
    layers = []
    for _ in range(count):
        layer = {}
        for name, shape in shapes.items():
            rows = shape[-2]
            weights = torch.randn(shape, dtype=torch.float64) / rows**0.5
            layer[name] = weights.to(device)
        layers.append(layer)
    return layers


def leaves(layers: Weights) -> Weights:
    """Copies that collect gradients of their own."""
    copies = []
    for layer in layers:
        copied = {}
        for name, matrix in layer.items():
            copied[name] = matrix.detach().clone()
            copied[name].requires_grad_()
        copies.append(copied)
    return copies


def gradients(layers: Weights) -> Weights:
    """The gradient of each matrix, in the place of the matrix."""
    all_layers = []
    for layer in layers:
        of_layer = {name: matrix.grad for name, matrix in layer.items()}
        all_layers.append(of_layer)
    return all_layers


def matrices(layers: Weights) -> list[Tensor]:
    """Those of all layers, one behind the other."""
    return [matrix for layer in layers for matrix in layer.values()]


def gap(mine: Weights, wanted: Weights) -> float:
    """How far they are apart, the worst matrix's, beside columns in the wrong order."""
    right = matrices(wanted)
    wrong = [matrix.flip(-1) for matrix in right]
    return apart(matrices(mine), right, wrong)
