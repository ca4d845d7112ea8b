"""Two threads of one process against two processes: which of them compute at the same time?

Run:  python gil.py
      torchrun --standalone --nproc-per-node=2 gil.py
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from threading import Thread

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report, start
from stopwatch import in_turns

Work = Callable[[], None]


def python_loop() -> None:
    total = 0
    for number in range(500_000):
        total += number * number % 7


def small_tensors() -> None:
    x = torch.ones(10)
    for _ in range(10_000):
        x = x * 0.999


def large_tensors() -> None:
    # A core for each thread of ours, and none for threads that torch would add.
    torch.set_num_threads(1)
    x = torch.ones(500, 500)
    for _ in range(7):
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


def compare(work: Work, rounds: int, place: Place) -> dict[str, dict[str, list[float]]]:
    """Of each way in each round: seconds, and how many cores this process kept busy in them; and
    how many pieces of work this process did in the last.

    Only rank 0 works when one process is enough; the others sleep in the barrier ahead of each way.
    """
    count = place.world_size  # pieces of work
    cores: dict[str, list[float]] = {}
    pieces: dict[str, int] = {}
    done: list[str] = []

    def piece() -> None:
        work()
        done.append("one more")

    def clocked(name: str, way: Callable[[Work, int], None]) -> None:
        done.clear()
        began = time.perf_counter()
        cpu_began = time.process_time()
        takes_part = place.rank == 0 or way is in_processes
        if takes_part:
            way(piece, count)
        cpu = time.process_time() - cpu_began
        elapsed = time.perf_counter() - began
        cores.setdefault(name, []).append(cpu / elapsed)
        pieces[name] = len(done)

    ways = {"one thread": one_by_one, "threads": in_threads, "processes": in_processes}
    calls = {}
    for name, way in ways.items():
        calls[name] = partial(clocked, name, way)
    seconds = in_turns(calls, rounds, place.device, before=dist.barrier)
    for name, own in cores.items():
        cores[name] = own[-rounds:]  # without the rounds that warm up
    return {"seconds": seconds, "cores": cores, "pieces": pieces}


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    place = here(gpus=0)  # in any case, as this is about the CPU alone
    start(place)

    seconds = {}
    cores = {}
    pieces = {}
    for work in (python_loop, small_tensors, large_tensors):
        kind = work.__name__.replace("_", " ")
        measured = compare(work, args.rounds, place)
        seconds[kind] = measured["seconds"]
        cores[kind] = measured["cores"]
        pieces[kind] = measured["pieces"]
        if place.rank == 0:
            times = []
            for way, own in measured["seconds"].items():
                times.append(f"{way} {median(own):.3f} s")
            print(f"{kind}:", ", ".join(times))
    report("gil", place, seconds=seconds, cores=cores, pieces=pieces)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
