"""One stack of layers, cut in five ways: equal gradients, and the bytes that each way sends.

Each way has two functions: which weights a rank keeps, and how it computes their gradients.

Run:  python fiveways.py
      torchrun --standalone --nproc-per-node=2 fiveways.py
"""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from counter import Collectives
from crossings import Copy, Exchange, Sum, add_up, receive, send
from devices import Place, here, report, start
from layers import Weights, from_experts, gap, gradients, leaves, loss_of, make, stack, to_experts
from parts import contiguous
from ringattention import Ring

SHAPES = {  # sequences, positions, numbers of a token
    "base": (4, 32, 32),
    "twice the positions": (4, 64, 32),
    "twice the width": (4, 32, 64),
}


def all_weights(layers: Weights, place: Place) -> Weights:
    return layers


def by_data(x: Tensor, mine: Weights, place: Place) -> None:
    """Some of the sequences, all weights: the gradients are added up."""
    own = x.chunk(place.world_size)[place.rank]
    y = stack(own, mine)
    loss_of(y).backward()
    add_up(mine, "q k v o up down")


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


def by_positions(x: Tensor, mine: Weights, place: Place) -> None:
    """Some of the positions, all weights: ring attention, and the gradients are added up."""

    def attend_in_ring(*tensors: Tensor) -> Tensor:
        chunks_first = [each.permute(1, 0, 3, 2, 4) for each in tensors]
        out = Ring.apply(*chunks_first, contiguous)
        return out.permute(1, 0, 3, 2, 4)

    own = x.chunk(place.world_size, 1)[place.rank]
    chunks = own.unflatten(1, (2, -1))
    y = stack(chunks, mine, attention=attend_in_ring)
    loss_of(y).backward()
    add_up(mine, "q k v o up down")


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


WAYS = {
    "data": (all_weights, by_data),
    "tensor": (columns_and_rows, by_tensor),
    "pipeline": (one_layer, by_layers),
    "sequence": (all_weights, by_positions),
    "experts": (one_expert, by_experts),
}


def compare(way: str, shape: tuple[int, int, int], place: Place) -> dict:
    """What this rank sends in a step, and how far its gradients are from those of one process."""
    keep, step = WAYS[way]
    torch.manual_seed(0)  # the same tokens and weights on all ranks
    x = torch.randn(shape, dtype=torch.float64).to(place.device)
    experts = place.world_size if way == "experts" else None
    whole = leaves(make(place.world_size, shape[-1], experts, place.device))
    mine = leaves(keep(whole, place))
    with Collectives() as seen:
        step(x, mine, place)

    y = stack(x, whole)
    loss_of(y).backward()
    right = keep(gradients(whole), place)
    return {"difference": gap(gradients(mine), right), "calls": seen.totals()}


@record
def main() -> None:
    place = here()
    start(place)
    runs = {}
    for way in WAYS:
        runs[way] = {name: compare(way, shape, place) for name, shape in SHAPES.items()}
        if place.rank == 0:
            print(f"{way:9} rank 0 calls", runs[way]["base"]["calls"])
    report("fiveways", place, shapes=SHAPES, layers=place.world_size, runs=runs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
