"""Two threads of one process against two processes: which of them compute at the same time?

Run:  python gil.py
      torchrun --standalone --nproc-per-node=2 gil.py
"""

import argparse
import time
from collections.abc import Callable
from statistics import median
from threading import Thread
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report, start

Work = Callable[[], None]


class Clocked(NamedTuple):
    passed: float  # seconds until the work is done
    cpu: float  # seconds that cores spent on it


def python_loop() -> None:
    total = 0
    for number in range(1_500_000):
        total += number * number % 7


def small_tensors() -> None:
    x = torch.ones(10)
    for _ in range(30_000):
        x = x * 0.999


def large_tensors() -> None:
    torch.set_num_threads(
        1
    )  # a core for each thread of ours, and none for threads that torch would add
    x = torch.ones(500, 500)
    for _ in range(20):
        x = x @ x / 500


def one_by_one(work: Work, count: int) -> None:
    for _ in range(count):
        work()


def in_threads(work: Work, count: int) -> None:
    threads = [Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def in_processes(work: Work, count: int) -> None:
    work()  # every rank does this, so `count` pieces are done
    dist.barrier()


def clock(way: Callable[[Work, int], None], work: Work, count: int) -> Clocked:
    """Time `count` pieces of work done in one of three ways; CPU seconds of this process alone."""
    began = time.perf_counter()
    cpu_began = time.process_time()
    way(work, count)
    return Clocked(time.perf_counter() - began, time.process_time() - cpu_began)


def compare(work: Work, rounds: int, place: Place) -> dict[str, list[Clocked]]:
    """Time the three ways in turns, each a piece of work a rank; the first two on rank 0 only."""
    times = {"one thread": [], "threads": [], "processes": []}
    work()  # to warm up
    for _ in range(rounds):
        if place.rank == 0:
            times["one thread"].append(clock(one_by_one, work, place.world_size))
            times["threads"].append(clock(in_threads, work, place.world_size))
        dist.barrier()  # until here the other ranks slept
        own = clock(in_processes, work, place.world_size)
        cpu = torch.tensor(own.cpu)
        dist.all_reduce(cpu)
        times["processes"].append(Clocked(own.passed, cpu.item()))
    return {way: clocks for way, clocks in times.items() if clocks}


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    place = here()
    start(place._replace(backend="gloo"))  # in any case, as this is about the CPU alone

    seconds = {}
    cores = {}
    for work in (python_loop, small_tensors, large_tensors):
        kind = work.__name__.replace("_", " ")
        seconds[kind] = {}
        cores[kind] = {}
        for way, clocks in compare(work, args.rounds, place).items():
            seconds[kind][way] = median(each.passed for each in clocks)
            cores[kind][way] = median(each.cpu / each.passed for each in clocks)
        if place.rank == 0:
            times = [f"{way} {passed:.2f} s" for way, passed in seconds[kind].items()]
            print(f"{kind}:", ", ".join(times))
    report("gil", place, seconds=seconds, cores=cores)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
