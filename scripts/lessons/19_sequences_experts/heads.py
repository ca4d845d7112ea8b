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

HEADS = 4
SIZE = 16  # numbers in the query, key or value of one head


def trade(x: Tensor, give: int, get: int) -> Tensor:
    """Give the other ranks parts of dimension `give`, get theirs along dimension `get`."""
    world_size = dist.get_world_size()
    parts = torch.stack(x.chunk(world_size, give))
    one_each = [1] * world_size
    return torch.cat(list(Exchange.apply(parts, one_each, one_each)), get)


def attend(*parts: Tensor) -> Tensor:
    """Causal attention with these q, k, v; [heads, this rank's positions, numbers]."""
    whole = [trade(each, give=0, get=1) for each in parts]  # all positions of some heads
    out = scaled_dot_product_attention(*whole, is_causal=True)
    return trade(out, give=1, get=0)


def attend_in_ring(*parts: Tensor) -> Tensor:
    chunks = [each.unflatten(1, (2, -1)).movedim(1, 0) for each in parts]
    return Ring.apply(*chunks, contiguous).movedim(0, 1).flatten(1, 2)


@record
def main() -> None:
    place = here()
    start(place)
    torch.manual_seed(0)  # the same on all ranks
    shape = [4, HEADS, 16 * place.world_size, SIZE]
    whole = torch.randn(shape, dtype=torch.float64).to(place.device)
    inputs = [each.clone().requires_grad_() for each in whole[:3]]
    reference = scaled_dot_product_attention(*inputs, is_causal=True)
    reference.backward(whole[3])
    wanted = [reference.detach(), *[each.grad for each in inputs]]

    runs = {}
    for name, attention in {"all-to-all": attend, "ring": attend_in_ring}.items():
        own = whole.chunk(place.world_size, 2)[place.rank]
        parts = [each.clone().requires_grad_() for each in own[:3]]
        with Collectives() as forward:
            out = attention(*parts)
        with Collectives() as backward:
            out.backward(own[3])
        found = [out.detach(), *[each.grad for each in parts]]
        gaps = []
        for each, all_rows in zip(found, wanted, strict=True):
            rows = all_rows.chunk(place.world_size, 1)[place.rank]
            gaps.append(((each - rows).abs().max() / rows.abs().max()).item())
        runs[name] = {
            "difference": gaps,
            "forward": forward.totals(),
            "backward": backward.totals(),
        }
        if place.rank == 0:
            print(f"{name:10} out, dq, dk, dv differ by", *[f"{gap:.0e}" for gap in gaps])
    report("heads", place, part=own[0].nbytes, runs=runs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
