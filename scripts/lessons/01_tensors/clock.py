"""What costs time? A loop against one call, a call that returns against work done, and copies.

Run:  python clock.py
      torchrun --standalone --nproc-per-node=1 clock.py --matrix 1024
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from devices import device_name, here, report


class Times(NamedTuple):
    returned: float  # seconds until the call returned
    done: float  # seconds until its work was done


def clocked(action: Callable, device: torch.device, repeats: int = 5) -> Times:
    """Medians over `repeats` calls of `action`, after one call to warm up."""
    # torch.cuda.synchronize waits until the GPU has finished all that was asked of it. The CPU's
    # does nothing: there, what has returned is done.
    synchronize = torch.get_device_module(device).synchronize
    returned = []
    done = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        action()
        returned.append(time.perf_counter() - start)
        synchronize()
        done.append(time.perf_counter() - start)
    return Times(median(returned[1:]), median(done[1:]))


def one_by_one(x: Tensor) -> Tensor:
    """Sum of the squares of x (n,), with a Python loop."""
    total = torch.zeros((), device=x.device)
    for value in x:
        total = total + value * value
    return total


def at_once(x: Tensor) -> Tensor:
    """The same sum, with two operations on the whole of x."""
    return (x * x).sum()


def sums(sizes: list[int], device: torch.device) -> dict:
    """Seconds for each size at once, and for sizes up to 10,000 in a loop; do the sums agree?"""
    x = torch.rand(sizes[-1], device=device)
    whole = []
    for size in sizes:
        times = clocked(partial(at_once, x[:size]), device)
        whole.append(times.done)
    loop = []
    for size in sizes:
        if size > 10_000:
            break  # a longer loop takes seconds
        times = clocked(partial(one_by_one, x[:size]), device, repeats=3)
        loop.append(times.done)
    first = x[:1000]
    same = torch.allclose(one_by_one(first), at_once(first))
    return {"whole": whole, "loop": loop, "same": same}


def product(size: int, device: torch.device) -> dict[str, float]:
    """Seconds of a (size, size) matrix times itself, with three places to stop the clock."""
    a = torch.rand(size, size, device=device)
    times = clocked(partial(torch.mm, a, a), device)
    # `.item()` gives one number of the product to Python, which has to wait for it.
    reading = clocked(lambda: torch.mm(a, a)[0, 0].item(), device)
    return {
        "operations": 2 * size**3,  # a multiplication and an addition each
        "returned": times.returned,
        "done": times.done,
        "read": reading.returned,
    }


def copies(device: torch.device, size: int) -> dict[str, float]:
    """Bytes a second of copies of `size` bytes, by where they come from and go to."""
    host = torch.zeros(size, dtype=torch.uint8)
    routes = {"host → host": (host, torch.ones_like(host))}
    if device.type == "cuda":
        there = host.to(device)
        routes["host → GPU"] = (host, there)
        routes["pinned host → GPU"] = (host.pin_memory(), there)
        routes["GPU → host"] = (there, torch.ones_like(host))
        routes["GPU → GPU"] = (there, torch.ones_like(there))
    speeds = {}
    for route, (source, target) in routes.items():
        copy = partial(target.copy_, source, non_blocking=True)
        times = clocked(copy, device)
        speeds[route] = size / times.done
    return speeds


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--matrix", type=int, default=1024, help="rows of the matrix to multiply")
    parser.add_argument("--largest", type=int, default=7, help="10 to this power: longest vector")
    args = parser.parse_args()
    place = here()

    sizes = [10**power for power in range(1, args.largest + 1)]
    times = sums(sizes, place.device)
    matmul = product(args.matrix, place.device)

    name = device_name(place.device)
    whole = len(times["whole"])
    loop = len(times["loop"])
    print(f"{name}: {whole} sizes at once, {loop} in a loop, the same sums: {times['same']}")
    speeds = copies(place.device, 64 * 2**20)
    report("clock", place, sizes=sizes, **times, matmul=matmul, copies=speeds)


if __name__ == "__main__":
    main()
