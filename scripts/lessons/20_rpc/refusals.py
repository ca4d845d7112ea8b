"""Four calls that go wrong, each in its own way: what does the caller get?

Run:  python refusals.py
      torchrun --standalone --nproc-per-node=2 refusals.py
"""

import time
from collections.abc import Callable

import torch.distributed.rpc as rpc
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report
from workers import join

booked = []  # of this rank


def book(seat: int) -> int:
    """Book a seat; how many are booked now."""
    if seat > 9:
        raise ValueError(f"seat {seat}, but there are 10 seats")
    booked.append(seat)
    return len(booked)


def book_slowly(seat: int) -> int:
    time.sleep(1)
    return book(seat)


def seats() -> list[int]:
    return booked


def outcome(call: Callable[[], object]) -> dict:
    """What a call comes to: its answer, or the type and the text of its error."""
    began = time.perf_counter()
    answer = kind = text = None
    try:
        answer = call()
    except Exception as error:
        kind = type(error).__name__
        text = str(error)
    seconds = time.perf_counter() - began
    return {"answer": answer, "kind": kind, "text": text, "seconds": seconds}


@record
def main() -> None:
    place = here(gpus=0)
    join(place)
    if place.rank == 0:
        last = f"worker{place.world_size - 1}"
        calls = {
            "raises": lambda: rpc.rpc_sync(last, book, (12,)),
            "a lambda": lambda: rpc.rpc_sync(last, lambda seat: [seat], (1,)),
            "unknown": lambda: rpc.rpc_sync("worker7", book, (1,)),
            "too slow": lambda: rpc.rpc_sync(last, book_slowly, (5,), timeout=0.5),
        }
        told = {name: outcome(call) for name, call in calls.items()}
        time.sleep(1)  # longer than the rest of the slow booking
        told["afterwards"] = rpc.rpc_sync(last, seats)
        report("refusals", place, told=told)
    rpc.shutdown()


if __name__ == "__main__":
    main()
