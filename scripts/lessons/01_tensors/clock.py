"""What costs time? A loop against one call, and a call that returns against work done.

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
    returned: list[float]  # seconds until each call returned
    done: list[float]  # seconds until its work was done


def clocked(action: Callable, device: torch.device, repeats: int = 5, settle: int = 1) -> Times:
    """Times of `repeats` calls of `action`, after `settle` calls to warm up."""
    # torch.cuda.synchronize waits until the GPU has finished all that was asked of it. The CPU's
    # does nothing: there, what has returned is done.
    synchronize = torch.get_device_module(device).synchronize
    times = Times([], [])
    for _ in range(settle + repeats):
        start = time.perf_counter()
        action()
        returned = time.perf_counter() - start
        synchronize()
        done = time.perf_counter() - start
        times.returned.append(returned)
        times.done.append(done)
    return Times(times.returned[settle:], times.done[settle:])


def one_by_one(x: Tensor) -> Tensor:
    """Sum of the squares of x (n,), with a Python loop."""
    total = torch.zeros((), device=x.device)
    for value in x:
        total = total + value * value
    return total


def at_once(x: Tensor) -> Tensor:
    """The same sum, with one call for the whole of x.

    `(x * x).sum()` would also make a tensor of squares. On a CPU a large one gets its memory from
    the system each time, page by page, and that would be timed, too.
    """
    return x.dot(x)


def sums(sizes: list[int], device: torch.device) -> dict:
    """Seconds for each size at once, and for sizes up to 10,000 in a loop; do the sums agree?"""
    x = torch.rand(sizes[-1], device=device)
    whole = []
    for size in sizes:
        action = partial(at_once, x[:size])
        times = clocked(action, device)
        whole.append(median(times.done))
    loop = []
    for size in sizes:
        if size > 10_000:
            break  # a longer loop takes seconds
        action = partial(one_by_one, x[:size])
        times = clocked(action, device, repeats=3)
        loop.append(median(times.done))
    first = x[:1000]
    by_loop = one_by_one(first)
    by_call = at_once(first)
    same = torch.allclose(by_loop, by_call)
    return {"whole": whole, "loop": loop, "same": same}


def product(size: int, device: torch.device, repeats: int = 5) -> dict[str, float | list[float]]:
    """Seconds of a (size, size) matrix times itself, with three places to stop the clock."""
    a = torch.rand(size, size, device=device)
    multiply = partial(torch.mm, a, a)

    def multiply_and_read() -> None:
        """`.item()` gives one number of the product to Python, which has to wait for it."""
        corner = torch.mm(a, a)[0, 0]
        corner.item()

    operations = 2 * size**3  # a multiplication and an addition for each of the size³ pairs
    times = {"operations": operations, "returned": [], "done": [], "read": []}
    for number in range(1 + repeats):
        # In turns, so that whatever else the machine does slows both alike.
        waiting = clocked(multiply, device, 1, settle=0)
        reading = clocked(multiply_and_read, device, 1, settle=0)
        if number > 0:  # the first round warms up
            times["returned"] += waiting.returned
            times["done"] += waiting.done
            times["read"] += reading.returned
    return times


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
    report("clock", place, sizes=sizes, **times, matmul=matmul)


if __name__ == "__main__":
    main()
