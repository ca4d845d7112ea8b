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
from yardstick import apart

HEADS = 2
SIZE = 32  # numbers in the query, key or value of one head


def leaf(tensor: Tensor) -> Tensor:
    """A copy that collects a gradient of its own."""
    return tensor.clone().requires_grad_()


def results(out: Tensor, inputs: list[Tensor]) -> dict[str, Tensor]:
    """The output, and the gradients of q, k and v once backward has run."""
    q, k, v = inputs
    return {"out": out.detach(), "dq": q.grad, "dk": k.grad, "dv": v.grad}


def whole_attention(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Output and gradients of causal attention in one process."""
    inputs = [leaf(tensors[name]) for name in ("q", "k", "v")]
    out = scaled_dot_product_attention(*inputs, is_causal=True)
    out.backward(tensors["dout"])
    return results(out, inputs)


def compare(layout: Callable, tensors: dict[str, Tensor], place: Place) -> dict:
    """Ring attention on this rank's chunks, against the same rows of the whole."""
    mine = layout(place.rank, place.world_size)

    def cut(whole: Tensor) -> Tensor:
        """This rank's chunks; [heads, positions, numbers] → [2, heads, positions, numbers]."""
        chunks = whole.unflatten(1, (2 * place.world_size, -1))
        return chunks.movedim(1, 0)[mine]

    inputs = []
    for name in ("q", "k", "v"):
        chunks = cut(tensors[name])
        inputs.append(leaf(chunks))
    with Collectives() as forward:
        out = Ring.apply(*inputs, layout)
    work = list(Ring.work)
    saved = out.grad_fn.saved_tensors
    kept = sum(each.nbytes for each in saved)
    dout = cut(tensors["dout"])
    with Collectives() as backward:
        out.backward(dout)

    wanted = whole_attention(tensors)
    gaps = {}
    for name, own in results(out, inputs).items():
        same_rows = cut(wanted[name])
        other_chunk = same_rows.flip(0)
        gaps[name] = apart(own, same_rows, other_chunk)
    return {
        "difference": gaps,
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
        run = compare(LAYOUTS[name], tensors, place)
        runs[name] = run
        if place.rank == 0:
            gaps = [f"{key} {gap:.0e}" for key, gap in run["difference"].items()]
            line = ", ".join(gaps)
            print(f"{name}: rank 0 differs from one process by", line)
    shape = [HEADS, args.positions, SIZE]
    report("attention", place, shape=shape, runs=runs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
