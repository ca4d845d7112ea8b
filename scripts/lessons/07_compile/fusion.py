"""A chain of small operations, one by one and as one kernel: how many kernels, how many bytes, how long?

Run:  python fusion.py --megabytes 64
"""

import argparse
import time

import torch
from torch import Tensor
from torch._inductor.utils import run_and_get_code
from torch.distributed.elastic.multiprocessing.errors import record
from torch.utils._python_dispatch import TorchDispatchMode

from captured import kernels, touched
from devices import here, report
from speed import BACKEND


def chain(x: Tensor) -> Tensor:
    """Six operations, each on every number by itself."""
    x = x * 1.5
    x = x + 0.5
    x = x.abs()
    x = x.sqrt()
    x = x - 1.0
    return x.relu()


class Traffic(TorchDispatchMode):
    """Counts what runs inside it: operations, and the bytes of all tensors that they read and write."""

    def __init__(self):
        super().__init__()
        self.operations, self.bytes = [], 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        output = operation(*args, **(kwargs or {}))
        self.operations.append(operation.__name__.partition(".")[0])
        self.bytes += sum(t.nbytes for t in (*args, output) if isinstance(t, Tensor))
        return output


def seconds(function, x: Tensor) -> float:
    """Wall time of one call, the GPU's work included."""
    if x.is_cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    function(x)
    if x.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=64, help="size of the tensor")
    parser.add_argument("--rounds", type=int, default=7)
    args, place = parser.parse_args(), here()
    torch.manual_seed(0)
    x = torch.randn(args.megabytes * 2**20 // 4, device=place.device)

    with Traffic() as traffic:
        expected = chain(x)
    eager = {"operations": traffic.operations, "kernels": len(traffic.operations), "bytes": traffic.bytes}

    compiled = torch.compile(chain, backend=BACKEND)
    output, modules = run_and_get_code(compiled, x)
    written = kernels("".join(modules))
    fused = {"kernels": len(written), "bytes": x.nbytes * sum(map(touched, written))}
    difference = (output - expected).abs().max().item()
    with Traffic() as gate:
        x + torch.sigmoid(x) * x  # for an exercise; fused, it is the kernel that captured.py shows

    rounds = [(seconds(chain, x), seconds(compiled, x)) for _ in range(args.rounds)]  # in turn, under the same noise
    for found, times in zip([eager, fused], zip(*rounds, strict=True), strict=True):
        found["seconds"] = sorted(times)[args.rounds // 2]
        moved, rate = found["bytes"] / 2**20, found["bytes"] / found["seconds"] / 1e9
        print(f"kernels: {found['kernels']}, {moved:,.0f} MiB, {1000 * found['seconds']:.1f} ms, {rate:.1f} GB/s")
    report("fusion", place, eager=eager, fused=fused, difference=difference, size=x.nbytes, gate=gate.bytes // x.nbytes)


if __name__ == "__main__":
    main()
