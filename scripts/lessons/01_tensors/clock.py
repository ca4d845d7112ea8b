"""What costs time? A loop against whole tensors, a call that returns against work that is done, and copies.

Run:  python clock.py
      torchrun --standalone --nproc-per-node=1 clock.py --matrix 1024
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from torch.distributed.elastic.multiprocessing.errors import record

from devices import device_name, here, report


def clocked(action: Callable, device: torch.device, repeats: int = 5) -> tuple[float, float]:
    """Seconds until `action` returns, and until its work is done: medians over `repeats`, after one run to warm up."""
    returned, done = [], []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        action()
        returned.append(time.perf_counter() - start)
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # wait here until the GPU has finished all that was asked of it
        done.append(time.perf_counter() - start)
    return median(returned[1:]), median(done[1:])


def one_by_one(x: torch.Tensor) -> torch.Tensor:
    """Sum of the squares of x (n,), with a Python loop."""
    total = torch.zeros((), device=x.device)
    for value in x:
        total = total + value * value
    return total


def at_once(x: torch.Tensor) -> torch.Tensor:
    """The same sum, with two operations on the whole of x."""
    return (x * x).sum()


def copies(device: torch.device, size: int) -> dict[str, float]:
    """Bytes a second of copies of `size` bytes, by where they come from and go to."""
    host = torch.zeros(size, dtype=torch.uint8)
    ways = {"host → host": (host, torch.ones_like(host))}
    if device.type == "cuda":
        there = host.to(device)
        ways["host → GPU"] = (host, there)
        ways["pinned host → GPU"] = (host.pin_memory(), there)
        ways["GPU → host"] = (there, torch.ones_like(host))
        ways["GPU → GPU"] = (there, torch.ones_like(there))
    return {
        way: size / clocked(partial(target.copy_, source, non_blocking=True), device)[1]
        for way, (source, target) in ways.items()
    }


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--matrix", type=int, default=1024, help="rows and columns of the matrix that is multiplied")
    parser.add_argument("--largest", type=int, default=7, help="the longest vector has 10 to this power elements")
    args, place = parser.parse_args(), here()
    device = place.device

    sizes = [10**power for power in range(1, args.largest + 1)]
    x = torch.rand(sizes[-1], device=device)
    whole = [clocked(partial(at_once, x[:size]), device)[1] for size in sizes]
    loop = [clocked(partial(one_by_one, x[:size]), device, repeats=3)[1] for size in sizes if size <= 10_000]
    same = torch.allclose(one_by_one(x[:1000]), at_once(x[:1000]))

    a = torch.rand(args.matrix, args.matrix, device=device)
    returned, done = clocked(partial(torch.mm, a, a), device)
    read, _ = clocked(lambda: torch.mm(a, a)[0, 0].item(), device)

    print(f"{device_name(device)}: {len(whole)} sizes at once, {len(loop)} in a loop, the same sums: {same}")
    report(
        "clock",
        place,
        sizes=sizes,
        whole=whole,
        loop=loop,
        same=same,
        matmul={"operations": 2 * args.matrix**3, "returned": returned, "done": done, "read": read},
        copies=copies(device, 64 * 2**20),
    )


if __name__ == "__main__":
    main()
