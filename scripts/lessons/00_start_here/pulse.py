"""Do the ranks reach each other, and how fast? All-reduces of growing size, each with a time limit.

Run:  python pulse.py
      torchrun --standalone --nproc-per-node=2 pulse.py
      torchrun --standalone --nproc-per-node=2 pulse.py --absent 1 --limit 6  # rank 1 never joins
"""

import argparse
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report, start
from stopwatch import seconds

KB = 1024
MB = KB * KB
GB = KB * MB
VARIABLES = ("OMP_NUM_THREADS", "NCCL_P2P_DISABLE")  # reported, as they change the times
REMEDY = """If these are two GPUs:
- error 217 (peer access is not supported): set NCCL_CUMEM_HOST_ENABLE=0 and launch again;
- any other end: set NCCL_P2P_DISABLE=1 and launch again (it can cost speed);
- still the same: set NCCL_DEBUG=INFO, launch again, and read what nccl tried last.
"""


class Watch:
    """Ends this process when a step takes too long. In a thread, since `main` is what hangs."""

    def __init__(self, place: Place):
        self.place = place
        self.timer: threading.Timer | None = None

    def now(self, doing: str, limit: float) -> None:
        """Begin a step that may take `limit` seconds from here; the step before has ended."""
        self.stop()
        self.timer = threading.Timer(limit, self.give_up, [doing, limit])
        self.timer.daemon = True
        self.timer.start()

    def stop(self) -> None:
        if self.timer:
            self.timer.cancel()

    def give_up(self, doing: str, limit: float) -> None:
        late = f"{doing} has taken {limit:g} s over {self.place.backend}"
        print(f"rank {self.place.rank}: {late}. Giving up.\n{REMEDY}", end="", flush=True)
        os._exit(1)  # an exception would end this thread alone, and main waits inside a library


@contextmanager
def remedies(place: Place) -> Iterator[None]:
    """What helps two GPUs is printed before an error goes on its way, too: 217 does not hang."""
    try:
        yield
    except Exception:
        print(f"rank {place.rank} failed over {place.backend}.\n{REMEDY}", end="", flush=True)
        raise


def beat(tensor: torch.Tensor, place: Place) -> float:
    """Seconds of one all-reduce, until the sum is there; RuntimeError if it is not the sum."""
    tensor.fill_(place.rank + 1)
    all_reduce = partial(dist.all_reduce, tensor)
    duration = seconds(all_reduce, place.device)
    expected = place.world_size * (place.world_size + 1) // 2  # 1 + 2 + … + world_size
    if not bool((tensor == expected).all()):
        raise RuntimeError(f"rank {place.rank} holds a wrong sum of {tensor.nbytes} bytes")
    return duration


def fastest(size: int, place: Place) -> float:
    """Seconds of the fastest of several all-reduces of `size` bytes."""
    tensor = torch.empty(size // 4, device=place.device)  # float32: four bytes a number
    beat(tensor, place)  # the first one also sets up the connection
    repeats = 6 if size > MB else 30
    # What the others take longer is what else the machine did.
    return min(beat(tensor, place) for _ in range(repeats))


def measure(sizes: list[int], place: Place, watch: Watch, limit: float) -> list[float]:
    """Seconds of an all-reduce of each size, in bytes; rank 0 prints them."""
    times = []
    for size in sizes:
        kilobytes = size // KB
        watch.now(f"an all-reduce of {kilobytes:,} KB", limit)
        best = fastest(size, place)
        times.append(best)
        if place.rank == 0:
            speed = size / best / GB
            milliseconds = 1e3 * best
            print(f"{kilobytes:6,} KB {milliseconds:9.3f} ms {speed:8.3f} GB/s")
    return times


def devices_of_all(place: Place) -> list[str]:
    """On what each rank computes, told by the ranks themselves."""
    devices = [""] * place.world_size
    dist.all_gather_object(devices, str(place.device))
    return devices


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=64, help="MB of the last all-reduce")
    parser.add_argument("--limit", type=float, default=50, help="seconds that a size may take")
    parser.add_argument("--absent", type=int, help="number of the rank that never joins")
    args = parser.parse_args()
    place = here()

    # From 1 KB on, each message is four times as large as the one before.
    sizes = []
    size = KB
    while size <= args.largest * MB:
        sizes.append(size)
        size *= 4

    watch = Watch(place)
    watch.now("finding the other ranks", 50)
    with remedies(place):
        # torch's own limit is later than that of our watch.
        start(place, seconds=max(60, args.limit + 10))
        if place.rank == args.absent:
            watch.stop()
            time.sleep(10 * args.limit)
        times = measure(sizes, place, watch, args.limit)
        devices = devices_of_all(place)
    watch.stop()

    if place.rank == 0:
        where = " and ".join(devices)
        ranks = f"{place.world_size} ranks on {where}"
        print(f"✓ {ranks}, over {place.backend}: each sum was right on every rank")
    variables = {name: os.environ.get(name) for name in VARIABLES}
    report("pulse", place, sizes=sizes, seconds=times, devices=devices, variables=variables)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
