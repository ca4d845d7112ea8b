"""Three ways to add up over the ranks, from 4 bytes to 25 MB; and what one memcpy takes.

Run:  python speeds.py
      torchrun --standalone --nproc-per-node=2 speeds.py --rounds 20
"""

from argparse import ArgumentParser
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start
from ownbackends import on_cpu, register
from shared import Shared
from stopwatch import in_turns, slowest

LIMIT = timedelta(seconds=60)  # new_group's own would be 30 minutes
SIZES = [4, 1_000, 32_000, 1_000_000, 25_000_000]  # bytes


def written(way: Callable, out: Tensor) -> int:
    """How many numbers of `out` one call changes."""
    before = out.clone()
    way()
    return int((out != before).sum())


@record
def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="bytes")
    args = parser.parse_args()
    torch.set_num_threads(1)
    place = on_cpu(here(), "gloo")
    start(place)
    backend = register("nearby")
    ours = dist.new_group(backend=backend, timeout=LIMIT)
    python = Shared(place)

    times = {}
    work = {}
    for size in args.sizes:
        numbers = torch.zeros(size // 4)
        copy = torch.zeros_like(numbers)
        ways = {
            "gloo": partial(dist.all_reduce, numbers),
            "Python": partial(python.average, numbers),
            "ours": partial(dist.all_reduce, numbers, group=ours),
            "memcpy": partial(copy.copy_, numbers),
        }
        work[size] = {}
        for name, way in ways.items():
            numbers.fill_(1 + place.rank)  # other numbers on each rank, which every sum changes
            work[size][name] = written(way, copy if name == "memcpy" else numbers)
        numbers.zero_()  # zeros stay zeros, however often they are added
        # They meet in gloo's barrier. In ours the first one would go on looking, and gloo's threads
        # would have to wait for that core.
        own = in_turns(ways, args.rounds, place.device, settle=3, before=dist.barrier)
        times[size] = {}
        for name, own_seconds in own.items():
            times[size][name] = [slowest(seconds, place.device) for seconds in own_seconds]
    if place.rank == 0:
        print(f"{backend}: {len(times)} sizes, {args.rounds} rounds of each")
    report("speeds", place, ours=backend, times=times, work=work)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
