"""Three of the five ways to cut a stack of layers: tensor, pipeline and expert parallelism.

Each way has two functions: which weights a rank keeps, and how it computes their gradients.

Import it: fiveways.py compares these ways with two others.
"""

import torch
from torch import Tensor

from crossings import Copy, Exchange, Sum, add_up, receive, send
from devices import Place
from layers import Weights, from_experts, loss_of, stack, to_experts


def columns_and_rows(layers: Weights, place: Place) -> Weights:
    """Columns of the matrices at the entrance, rows of those at the exit."""
    dims = {"q": 1, "k": 1, "v": 1, "o": 0, "up": 1, "down": 0}
    kept = []
    for layer in layers:
        own = {}
        for name, matrix in layer.items():
            own[name] = matrix.chunk(place.world_size, dims[name])[place.rank]
        kept.append(own)
    return kept


def by_tensor(x: Tensor, mine: Weights, place: Place) -> None:
    """All tokens, a part of every matrix."""
    x.requires_grad_()  # as inside a larger model: the first layer sends its gradient back, too
    y = stack(x, mine, enter=Copy.apply, leave=Sum.apply)
    loss_of(y).backward()


def one_layer(layers: Weights, place: Place) -> Weights:
    return [layers[place.rank]]


def by_layers(x: Tensor, mine: Weights, place: Place) -> None:
    """All tokens, one layer: a pipeline with a single micro-batch."""
    if place.rank > 0:
        x = receive(x, place.rank - 1)
        x.requires_grad_()
    y = stack(x, mine)
    if place.rank < place.world_size - 1:
        send(y.detach(), place.rank + 1)
        gradient = receive(y.detach(), place.rank + 1)
        y.backward(gradient)
    else:
        loss_of(y).backward()
    if place.rank > 0:
        send(x.grad, place.rank - 1)


def one_expert(layers: Weights, place: Place) -> Weights:
    kept = []
    for layer in layers:
        own = dict(layer)
        own["up"] = layer["up"][place.rank]
        own["down"] = layer["down"][place.rank]
        kept.append(own)
    return kept


def by_experts(x: Tensor, mine: Weights, place: Place) -> None:
    """Some of the sequences, one expert: tokens travel to their experts and back."""

    def travel(x: Tensor, layer: dict[str, Tensor]) -> Tensor:
        rows = to_experts(x, place.world_size)
        equal = [rows.shape[1]] * place.world_size
        arrived = Exchange.apply(rows.flatten(0, 1), equal, equal)
        hidden = torch.relu(arrived @ layer["up"])
        returned = Exchange.apply(hidden @ layer["down"], equal, equal)
        return from_experts(returned.view_as(rows), len(x))

    own = x.chunk(place.world_size)[place.rank]
    y = stack(own, mine, feed=travel)
    loss_of(y).backward()
    add_up(mine, "q k v o")  # not the experts': each has seen all of its tokens
