"""Attention over a sequence that is cut over the ranks, by all-to-all: trade positions for heads.

After Jacobs et al., "DeepSpeed Ulysses" (arXiv:2309.14509). Ring attention computes the same.

Run:  python heads.py
      torchrun --standalone --nproc-per-node=2 heads.py
"""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.functional import scaled_dot_product_attention

from counter import Collectives
from crossings import Exchange
from devices import here, report, start
from parts import contiguous
from ringattention import Ring
from yardstick import apart

HEADS = 4
SIZE = 16  # numbers in the query, key or value of one head


def trade(x: Tensor, give: int, get: int) -> Tensor:
    """Give the other ranks parts of dimension `give`, get theirs along dimension `get`."""
    world_size = dist.get_world_size()
    parts = torch.stack(x.chunk(world_size, give))
    one_each = [1] * world_size
    received = Exchange.apply(parts, one_each, one_each)
    return torch.cat(list(received), get)


def attend(*parts: Tensor) -> Tensor:
    """Causal attention with these q, k, v; [heads, this rank's positions, numbers]."""
    whole = [trade(each, give=0, get=1) for each in parts]  # all positions of some heads
    out = scaled_dot_product_attention(*whole, is_causal=True)
    return trade(out, give=1, get=0)


def attend_in_ring(*parts: Tensor) -> Tensor:
    """The same by ring attention, which wants this rank's positions in two chunks."""
    chunks_first = []
    for each in parts:
        chunks = each.unflatten(1, (2, -1))
        chunks_first.append(chunks.movedim(1, 0))
    out = Ring.apply(*chunks_first, contiguous)
    return out.movedim(0, 1).flatten(1, 2)


def leaves(tensors: Tensor) -> list[Tensor]:
    """Copies of q, k and v that collect gradients of their own."""
    return [each.clone().requires_grad_() for each in tensors]


def results(out: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """The output, and the gradients of q, k and v once backward has run."""
    return [out.detach(), *[each.grad for each in inputs]]


@record
def main() -> None:
    place = here()
    start(place)
    torch.manual_seed(0)  # the same on all ranks
    shape = [4, HEADS, 16 * place.world_size, SIZE]
    whole = torch.randn(shape, dtype=torch.float64)
    whole = whole.to(place.device)  # q, k, v, and the gradient of the output
    inputs = leaves(whole[:3])
    reference = scaled_dot_product_attention(*inputs, is_causal=True)
    reference.backward(whole[3])
    wanted = results(reference, inputs)

    ways = {"all-to-all": attend, "ring": attend_in_ring}
    runs = {}
    for name, attention in ways.items():
        own = whole.chunk(place.world_size, 2)[place.rank]
        parts = leaves(own[:3])
        with Collectives() as forward:
            out = attention(*parts)
        with Collectives() as backward:
            out.backward(own[3])
        gaps = []
        for mine, all_rows in zip(results(out, parts), wanted, strict=True):
            rows = all_rows.chunk(place.world_size, 1)[place.rank]
            other_heads = rows.flip(0)
            gaps.append(apart(mine, rows, other_heads))
        runs[name] = {
            "difference": gaps,
            "forward": forward.totals(),
            "backward": backward.totals(),
        }
        if place.rank == 0:
            numbers = [f"{gap:.0e}" for gap in gaps]
            print(f"{name:10} out, dq, dk, dv differ by", *numbers)
    report("heads", place, part=own[0].nbytes, runs=runs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
