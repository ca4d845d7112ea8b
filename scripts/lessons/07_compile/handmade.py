"""One fused kernel written by hand in Triton: compiled on a GPU, interpreted on a CPU.

Run:  python handmade.py
"""

import os

import torch
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report
from yardstick import apart

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # Triton looks for it when it meets `@triton.jit`

import triton
from triton import language as tl

BLOCK = 1024  # numbers that one program handles


@triton.jit
def gated(x_pointer, h_pointer, out_pointer, n, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    at = first + tl.arange(0, BLOCK)  # the numbers that this program handles
    inside = at < n  # the last program has fewer
    x = tl.load(x_pointer + at, mask=inside)
    h = tl.load(h_pointer + at, mask=inside)
    out = x + tl.sigmoid(h) * h
    tl.store(out_pointer + at, out, mask=inside)


@triton.jit
def chained(x_pointer, out_pointer, n, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    at = first + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_pointer + at, mask=inside)
    # BEGIN SOLUTION
    x = tl.abs(x * 1.5 + 0.5)
    x = tl.maximum(tl.sqrt(x) - 1, 0)
    # STUB x = x * 1.5
    # END SOLUTION
    tl.store(out_pointer + at, x, mask=inside)


def launch(kernel, *inputs: Tensor) -> Tensor:
    """Start as many programs of a kernel as its inputs, all of one shape, need."""
    out = torch.empty_like(inputs[0])
    n = out.numel()
    programs = triton.cdiv(n, BLOCK)
    kernel[(programs,)](*inputs, out, n, BLOCK=BLOCK)
    return out


@record
def main() -> None:
    place = here()
    torch.manual_seed(0)
    x, h = torch.randn(2, 5000, device=place.device)

    # Eager mode says what is right: three kernels for `gated`, six for `chained`.
    gated_eagerly = x + torch.sigmoid(h) * h
    gated_error = apart(launch(gated, x, h), gated_eagerly, wrong=x)
    y = (x * 1.5 + 0.5).abs()
    chained_eagerly = (y.sqrt() - 1).relu()
    chained_error = apart(launch(chained, x), chained_eagerly, wrong=x)

    programs = triton.cdiv(len(x), BLOCK)
    how = "run by Triton's interpreter on the CPU"
    if place.device.type == "cuda":
        how = "compiled for the GPU"
    count = f"{programs} programs of {BLOCK} numbers for {len(x)}"
    print(f"{count}, {how}: off by {gated_error:.1e}")
    results = {"difference": gated_error, "gap": chained_error, "programs": programs, "how": how}
    report("handmade", place, **results)


if __name__ == "__main__":
    main()
