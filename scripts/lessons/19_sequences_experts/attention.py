"""Ring attention, forward and backward, against attention in one process.

Run:  python attention.py
      torchrun --standalone --nproc-per-node=2 attention.py --layouts contiguous zigzag
"""

from argparse import ArgumentParser
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.functional import scaled_dot_product_attention

from counter import Collectives
from devices import Place, here, report, start
from parts import LAYOUTS
from ringattention import Ring

HEADS = 2
SIZE = 32  # numbers in the query, key or value of one head


def difference(mine: Tensor, wanted: Tensor) -> float:
    """The largest difference, relative to the largest number that is wanted."""
    return ((mine - wanted).abs().max() / wanted.abs().max()).item()


def whole_attention(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Output and gradients of causal attention in one process."""
    inputs = [tensors[name].clone().requires_grad_() for name in ("q", "k", "v")]
    out = scaled_dot_product_attention(*inputs, is_causal=True)
    out.backward(tensors["dout"])
    gradients = [each.grad for each in inputs]
    return {"out": out.detach()} | dict(zip(["dq", "dk", "dv"], gradients, strict=True))


def compare(layout: Callable, tensors: dict[str, Tensor], place: Place) -> dict:
    """Ring attention on this rank's chunks, against the same rows of the whole."""
    mine = layout(place.rank, place.world_size)

    def cut(whole: Tensor) -> Tensor:
        """This rank's chunks; [heads, positions, numbers] → [2, heads, positions, numbers]."""
        return whole.unflatten(1, (2 * place.world_size, -1)).movedim(1, 0)[mine]

    parts = [cut(tensors[name]).clone().requires_grad_() for name in ("q", "k", "v")]
    with Collectives() as forward:
        out = Ring.apply(*parts, layout)
    work = list(Ring.work)
    kept = sum(each.nbytes for each in out.grad_fn.saved_tensors)
    with Collectives() as backward:
        out.backward(cut(tensors["dout"]))

    gradients = [each.grad for each in parts]
    found = {"out": out.detach()} | dict(zip(["dq", "dk", "dv"], gradients, strict=True))
    wanted = whole_attention(tensors)
    return {
        "difference": {name: difference(found[name], cut(wanted[name])) for name in found},
        "chunks": mine,
        "work": work,
        "kept": kept,
        "forward": forward.totals(),
        "backward": backward.totals(),
    }


@record
def main() -> None:
    place = here()
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--positions", type=int, default=512)
    parser.add_argument("--layouts", nargs="+", default=["contiguous"], choices=LAYOUTS)
    args = parser.parse_args()
    start(place)

    # One seed: all ranks make the same whole tensors, and compute with their own parts alone.
    torch.manual_seed(0)
    tensors = {}
    for name in ("q", "k", "v", "dout"):
        values = torch.randn(HEADS, args.positions, SIZE, dtype=torch.float64)
        tensors[name] = values.to(place.device)
    runs = {}
    for name in args.layouts:
        runs[name] = compare(LAYOUTS[name], tensors, place)
        if place.rank == 0:
            errors = [f"{key} {value:.0e}" for key, value in runs[name]["difference"].items()]
            print(f"{name}: rank 0 differs from one process by", ", ".join(errors))
    report("attention", place, shape=[HEADS, args.positions, SIZE], runs=runs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
