"""Do the ranks reach each other, and how fast? Timed all-reduces of growing size, which cannot hang for long.

Run:  python pulse.py
      torchrun --standalone --nproc-per-node=2 pulse.py
      torchrun --standalone --nproc-per-node=2 pulse.py --absent 1 --limit 6     # rank 1 never joins
"""

import argparse
import os
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report

KB, VARIABLES = 1024, ("OMP_NUM_THREADS", "NCCL_P2P_DISABLE")
REMEDY = """Two GPUs that stop here: set NCCL_P2P_DISABLE=1 and launch again (it can cost speed).
Still the same: set NCCL_DEBUG=INFO, launch again, and read what nccl tried last.
Error 217 (peer access is not supported): set NCCL_CUMEM_HOST_ENABLE=0."""


class Watch:
    """Ends this process when a step takes too long. A thread of its own, since `main` is what hangs."""

    def __init__(self, place: Place):
        self.place, self.timer = place, None

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
        said = f"rank {self.place.rank}: {doing} has taken {limit:g} s over {self.place.backend}. Giving up."
        print(f"{said}\n{REMEDY}\n", end="", flush=True)
        os._exit(1)  # an exception would end this thread alone, and main waits inside a library


def finish(device: torch.device) -> None:
    """Wait until the device has done all that it was given: on a GPU, calls return before the work is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def beat(tensor: torch.Tensor, place: Place) -> float:
    """Seconds of one all-reduce, from the call until the sum is there; RuntimeError if it is not the sum."""
    tensor.fill_(place.rank + 1)
    finish(place.device)
    start = time.perf_counter()
    dist.all_reduce(tensor)
    finish(place.device)
    seconds = time.perf_counter() - start
    expected = place.world_size * (place.world_size + 1) // 2
    if not bool((tensor == expected).all()):
        raise RuntimeError(f"rank {place.rank} holds a wrong sum of {tensor.nbytes} bytes")
    return seconds


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=64, help="MB of the last all-reduce")
    parser.add_argument("--limit", type=float, default=50, help="seconds that an all-reduce may take")
    parser.add_argument("--absent", type=int, help="number of the rank that never joins")
    args, place = parser.parse_args(), here()

    watch = Watch(place)
    watch.now("finding the other ranks", 50)
    dist.init_process_group(place.backend, timeout=timedelta(seconds=max(60, args.limit + 10)))  # ours speaks first
    sizes = [KB << shift for shift in range(0, 31, 2) if KB << shift <= args.largest * KB * KB]
    if place.rank == args.absent:
        watch.stop()
        time.sleep(10 * args.limit)
    seconds = []
    for size in sizes:
        watch.now(f"an all-reduce of {size // KB:,} KB", args.limit)
        tensor = torch.empty(size // 4, device=place.device)  # float32: four bytes a number
        beat(tensor, place)  # the first one also sets up the connection
        repeats = 6 if size > KB * KB else 30
        seconds.append(min(beat(tensor, place) for _ in range(repeats)))  # the rest is what else the machine did
        if place.rank == 0:
            print(f"{size // KB:6,} KB {1e3 * seconds[-1]:9.3f} ms {size / seconds[-1] / KB**3:8.3f} GB/s")
    watch.stop()
    report("pulse", place, sizes=sizes, seconds=seconds, variables={name: os.environ.get(name) for name in VARIABLES})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
