"""Three ways to wait, on two cores and on one; and a counter that rises too early.

Run:  python waiting.py
      torchrun --standalone --nproc-per-node=2 waiting.py --rounds 40
"""

import math
import os
from argparse import ArgumentParser
from datetime import timedelta
from functools import partial

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report, start
from ownbackends import on_cpu, register
from stopwatch import in_turns, slowest

LIMIT = timedelta(seconds=60)  # new_group's own would be 30 minutes
WAYS = ["spin", "spin, sleep", "spin, yield, sleep"]
SIZE = 250_000  # float32 numbers: 1 MB


def measure(groups: dict, rounds: int, place: Place) -> dict[str, list[float]]:
    """Seconds of an all-reduce in each way of waiting, of the slower rank in each round."""
    numbers = torch.zeros(SIZE)
    ways = {}
    for way, group in groups.items():
        ways[way] = partial(dist.all_reduce, numbers, group=group)
    meet = partial(dist.barrier, group=groups[WAYS[-1]])
    times = in_turns(ways, rounds, place.device, settle=2, before=meet)
    slower = {}
    for way, own in times.items():
        slower[way] = [slowest(seconds, place.device) for seconds in own]
    return slower


def wrong_sums(group: dist.ProcessGroup, rounds: int, place: Place) -> list[int]:
    """How many numbers were wrong, in each round of an all-reduce of other whole numbers."""
    counts = []
    index = torch.arange(SIZE)
    for number in range(rounds):
        parts = []
        for rank in range(place.world_size):
            numbers = (index + 7 * number) % (11 + rank)
            parts.append(numbers.float())
        total = parts[place.rank].clone()
        dist.all_reduce(total, group=group)
        wrong = total != sum(parts)
        counts.append(int(wrong.sum()))
    return counts


@record
def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    args = parser.parse_args()
    torch.set_num_threads(1)
    place = on_cpu(here(), "gloo")
    start(place)
    groups = {}
    for number, way in enumerate([*WAYS, "hasty"]):
        backend = register("nearby", f"nearby{number}", way=way)
        groups[way] = dist.new_group(backend=backend, timeout=LIMIT)
    hasty = groups.pop("hasty")

    times = {"any core": measure(groups, args.rounds, place)}
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})  # the same one for all ranks
    times["both on one core"] = measure(groups, math.ceil(args.rounds / 4), place)
    os.sched_setaffinity(0, cores)

    wrong = {
        "bytes, then counter": wrong_sums(groups[WAYS[-1]], args.rounds, place),
        "counter, then bytes": wrong_sums(hasty, args.rounds, place),
    }
    if place.rank == 0:
        when = ", ".join(times)
        print(f"up to {args.rounds} rounds of each way to wait: {when}")
    ours = "gloo" if backend == "gloo" else "nearby"
    report("waiting", place, ours=ours, times=times, wrong=wrong)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
