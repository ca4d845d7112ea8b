"""How fast are copies, within one memory and from one memory to another?

Run:  python copies.py
      torchrun --standalone --nproc-per-node=1 copies.py
"""

from functools import partial
from statistics import median

import torch
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from clock import clocked
from devices import device_name, here, report


def traffic(source: Tensor, target: Tensor) -> int:
    """Bytes that a memory, or the road between two, has to carry to copy `source` to `target`."""
    if source.device == target.device:
        return source.nbytes + target.nbytes  # read here and written here
    return source.nbytes  # across the road once


def copies(device: torch.device, size: int) -> dict[str, dict[str, float]]:
    """Bytes a second of copies of `size` bytes, by where they come from and go to.

    `copied` counts each byte of the tensor once, `carried` is the traffic that this makes.
    """
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
        seconds = median(times.done)
        copied = size / seconds
        carried = traffic(source, target) / seconds
        speeds[route] = {"copied": copied, "carried": carried}
    return speeds


@record
def main() -> None:
    place = here()
    speeds = copies(place.device, 64 * 2**20)
    name = device_name(place.device)
    routes = ", ".join(speeds)
    print(f"{name}: timed {routes}")
    report("copies", place, routes=speeds)


if __name__ == "__main__":
    main()
