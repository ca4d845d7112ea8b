"""One stack of layers, cut in five ways: equal gradients, and the bytes that each way sends.

Each way has two functions: which weights a rank keeps, and how it computes their gradients. Two
ways are here, the others in cuts.py.

Run:  python fiveways.py
      torchrun --standalone --nproc-per-node=2 fiveways.py
"""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from counter import Collectives
from crossings import add_up
from cuts import by_experts, by_layers, by_tensor, columns_and_rows, one_expert, one_layer
from devices import Place, here, report, start
from layers import Weights, gap, gradients, leaves, loss_of, make, stack
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
