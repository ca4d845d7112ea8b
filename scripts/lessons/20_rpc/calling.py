"""Rank 0 calls functions of another rank, waits for them or not, and keeps an object there.

Run:  python calling.py
      torchrun --standalone --nproc-per-node=3 calling.py
"""

import os
import threading
import time

import torch
import torch.distributed.rpc as rpc
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report
from workers import join

visits = []  # of this rank: when each call of `nap` and `product` began and ended here
shares = []  # of this rank: how many rows each call of `product` got


def who() -> dict:
    """Who runs this function?"""
    name = rpc.get_worker_info().name
    main = threading.current_thread() is threading.main_thread()
    return {"worker": name, "process": os.getpid(), "main thread": main}


def nap(seconds: float) -> tuple[float, float]:
    """Sleep; when that began and ended, on a clock that all processes of a machine share."""
    began = time.monotonic()
    time.sleep(seconds)
    visit = (began, time.monotonic())
    visits.append(visit)
    return visit


def product(part: Tensor, vector: Tensor) -> Tensor:
    """Some rows of a matrix times a vector. It takes its time."""
    shares.append(len(part))
    nap(0.3)
    return part @ vector


def newest_visit() -> tuple[float, float] | None:
    return visits.pop() if visits else None


def row_counts() -> list[int]:
    return shares


class Counter:
    """An object that stays where it was made."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, number: int) -> int:
        self.count += number
        return self.count


def remote_object(to: str) -> dict:
    """Make a counter on worker `to`, use it there, then fetch it."""
    counter = rpc.remote(to, Counter)  # an RRef: it says where the object is
    totals = []
    for number in [3, 3, 3]:
        total = counter.rpc_sync().add(number)
        totals.append(total)

    fetched = counter.to_here()
    fetched.add(100)
    told = {"owner": counter.owner_name(), "totals": totals}
    told["fetched"] = fetched.count
    told["at the owner"] = counter.rpc_sync().add(0)
    try:
        counter.local_value()
    except RuntimeError as error:
        told["local_value"] = str(error).splitlines()[0]
    return told


def spread(workers: list[str], matrix: Tensor, vector: Tensor) -> Tensor:
    """matrix @ vector: each worker gets one part of the rows, and all work at the same time."""
    # BEGIN SOLUTION
    parts = matrix.chunk(len(workers))
    futures = []
    for worker, part in zip(workers, parts, strict=True):
        futures.append(rpc.rpc_async(worker, product, (part, vector)))
    return torch.cat(torch.futures.wait_all(futures))
    # STUB return rpc.rpc_sync(workers[-1], product, (matrix, vector))
    # END SOLUTION


@record
def main() -> None:
    place = here(gpus=0)
    join(place)
    workers = [f"worker{rank}" for rank in range(place.world_size)]
    told = {"who": who()}
    if place.rank == 0:  # the others only serve
        last = workers[-1]
        told["ran"] = rpc.rpc_sync(last, who)
        total = rpc.rpc_sync(last, torch.add, (torch.ones(2), 1))
        told["sum"] = total.tolist()
        process = told["ran"]["process"]
        print(f"rank 0 is process {os.getpid()}; process {process} ran the call")

        told["sync"] = []
        for _ in range(3):
            visit = rpc.rpc_sync(last, nap, (0.3,))
            told["sync"].append(visit)
        futures = []
        for _ in range(3):
            future = rpc.rpc_async(last, nap, (0.3,))  # returns at once
            futures.append(future)
        told["async"] = [future.wait() for future in futures]

        told["object"] = remote_object(last)

        for worker in workers:
            while rpc.rpc_sync(worker, newest_visit):
                pass  # forget the naps
        matrix = torch.arange(20.0).view(5, 4)
        vector = torch.tensor([1.0, 2.0, 3.0, 4.0])
        own = spread(workers, matrix, vector)
        told["own"] = own.tolist()
        told["right"] = (matrix @ vector).tolist()
        told["visits"] = [rpc.rpc_sync(worker, newest_visit) for worker in workers]
        told["rows"] = []
        for worker in workers:
            counts = rpc.rpc_sync(worker, row_counts)
            told["rows"].append(sum(counts))
    report("calling", place, **told)
    rpc.shutdown()  # waits for all ranks: nobody leaves while another may still call


if __name__ == "__main__":
    main()
