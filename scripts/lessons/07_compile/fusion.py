"""A chain of small operations, one by one and as one kernel: how many kernels and bytes, how long?

Run:  python fusion.py --megabytes 64
"""

import argparse
import ctypes
import resource
import sys
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor
from torch._inductor.utils import run_and_get_code
from torch.distributed.elastic.multiprocessing.errors import record
from torch.utils._python_dispatch import TorchDispatchMode

from captured import kernels, touched
from devices import here, report
from speed import BACKEND
from stopwatch import in_turns
from yardstick import apart

# Numbers of two settings of Linux's C library (malloc.h).
M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4


def keep_memory() -> None:
    """Let a CPU keep the memory of old tensors for new ones, as torch does on a GPU.

    Otherwise each large tensor gets new pages from the operating system, which clears them first:
    on a CPU that can take longer than the operation which fills the tensor.
    """
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_MAX, 0)
        library.mallopt(M_TRIM_THRESHOLD, -1)


def faults(way: Callable[[], object]) -> int:
    """How many new pages of memory (of 4 KiB, as a rule) the system hands out in one call."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    way()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def chain(x: Tensor) -> Tensor:
    """Six operations, each on every number by itself."""
    x = x * 1.5
    x = x + 0.5
    x = x.abs()
    x = x.sqrt()
    x = x - 1.0
    return x.relu()


class Traffic(TorchDispatchMode):
    """Counts what runs inside it: operations, and the bytes of all tensors they read and write."""

    def __init__(self):
        super().__init__()
        self.operations: list[str] = []
        self.bytes = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        output = operation(*args, **(kwargs or {}))
        name = operation.__name__.partition(".")[0]
        self.operations.append(name)
        for t in (*args, output):
            if isinstance(t, Tensor):
                self.bytes += t.nbytes
        return output


def show(numbers: dict) -> None:
    """One line on a way: its kernels, the MiB that it moved, its time, and both as a rate."""
    mebibytes = numbers["bytes"] / 2**20
    milliseconds = 1000 * numbers["seconds"]
    rate = numbers["bytes"] / numbers["seconds"] / 1e9
    moved = f"{mebibytes:,.0f} MiB, {milliseconds:.1f} ms, {rate:.1f} GB/s"
    print(f"kernels: {numbers['kernels']}, {moved}, new pages: {numbers['faults']:,}")


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=64, help="size of the tensor")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    place = here()
    keep_memory()
    torch.manual_seed(0)
    count = args.megabytes * 2**20 // 4  # a number has 4 bytes
    x = torch.randn(count, device=place.device)

    compiled = torch.compile(chain, backend=BACKEND)
    ways = {"eager": lambda: chain(x), "fused": lambda: compiled(x)}

    # Eagerly, every operation is a kernel of its own: we count them while they run.
    with Traffic() as traffic:
        expected = ways["eager"]()
    names = traffic.operations
    eager = {"operations": names, "kernels": len(names), "bytes": traffic.bytes}

    # We cannot watch inside a generated kernel, but its code says what it reads and writes.
    output, modules = run_and_get_code(ways["fused"])
    difference = apart(output, expected, wrong=x)
    code = "".join(modules)
    written = kernels(code)
    trips = sum(touched(kernel) for kernel in written)
    fused = {"kernels": len(written), "bytes": trips * x.nbytes}

    # For an exercise. Fused, it is the kernel that captured.py shows.
    with Traffic() as gate:
        x + torch.sigmoid(x) * x

    times = in_turns(ways, args.rounds, place.device)
    for name, numbers in [("eager", eager), ("fused", fused)]:
        numbers["times"] = times[name]
        numbers["seconds"] = median(times[name])
        numbers["faults"] = faults(ways[name])
        show(numbers)
    counts = {"size": x.nbytes, "gate": gate.bytes // x.nbytes}
    report("fusion", place, eager=eager, fused=fused, difference=difference, **counts)


if __name__ == "__main__":
    main()
