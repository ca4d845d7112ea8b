"""Two threads of one process against two processes: which of them compute at the same time?

Run:  python gil.py
      torchrun --standalone --nproc-per-node=2 gil.py
"""

import argparse
import time
from collections.abc import Callable
from datetime import timedelta
from statistics import median
from threading import Thread

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


def python_loop() -> None:
    total = 0
    for number in range(1_500_000):
        total += number * number % 7


def small_tensors() -> None:
    x = torch.ones(10)
    for _ in range(30_000):
        x = x * 0.999


def large_tensors() -> None:
    torch.set_num_threads(1)  # a core for each thread of ours, and none for threads that torch would add
    x = torch.ones(500, 500)
    for _ in range(20):
        x = x @ x / 500


def one_by_one(work: Callable[[], None], count: int) -> None:
    for _ in range(count):
        work()


def in_threads(work: Callable[[], None], count: int) -> None:
    threads = [Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def in_processes(work: Callable[[], None], count: int) -> None:
    work()  # every rank does this, so `count` pieces are done
    dist.barrier()


def clock(way: Callable, work: Callable[[], None], count: int) -> tuple[float, float]:
    """Seconds that pass until `count` pieces of work are done, and CPU seconds of this process meanwhile."""
    start, start_cpu = time.perf_counter(), time.process_time()
    way(work, count)
    return time.perf_counter() - start, time.process_time() - start_cpu


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=60)
    args, place = parser.parse_args(), here()
    dist.init_process_group("gloo", timeout=timedelta(seconds=args.timeout))  # this is about the CPU only

    seconds, cores = {}, {}
    for work in (python_loop, small_tensors, large_tensors):
        clocks = {"one thread": [], "threads": [], "processes": []}
        work()  # to warm up
        for _ in range(args.rounds):
            if place.rank == 0:
                clocks["one thread"].append(clock(one_by_one, work, place.world_size))
                clocks["threads"].append(clock(in_threads, work, place.world_size))
            dist.barrier()  # until here the other ranks slept
            passed, cpu = clock(in_processes, work, place.world_size)
            dist.all_reduce(total := torch.tensor(cpu))
            clocks["processes"].append((passed, total.item()))
        kind = work.__name__.replace("_", " ")
        seconds[kind] = {way: median(passed for passed, _ in rounds) for way, rounds in clocks.items() if rounds}
        cores[kind] = {way: median(cpu / passed for passed, cpu in rounds) for way, rounds in clocks.items() if rounds}
        if place.rank == 0:
            print(f"{kind}:", ", ".join(f"{way} {passed:.2f} s" for way, passed in seconds[kind].items()))
    report("gil", place, seconds=seconds, cores=cores)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
