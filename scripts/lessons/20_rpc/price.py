"""What a call costs beside a plain message: there and back, for several sizes.

Run:  torchrun --standalone --nproc-per-node=2 price.py
"""

import time
from argparse import ArgumentParser

import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report, start
from stopwatch import in_turns
from workers import join

SIZES = [8, 1000, 64_000, 1_000_000, 8_000_000]  # bytes


def echo(tensor: Tensor) -> Tensor:
    return tensor


def compare(transport: str, rounds: int, place: Place) -> tuple[dict, float]:
    """Seconds there and back, by RPC and by gloo; and CPU seconds of a rank that waits for 1 s."""
    join(place, transport)
    times = {}
    for size in SIZES:
        message = torch.zeros(size, dtype=torch.uint8)

        def call(message: Tensor = message) -> None:
            rpc.rpc_sync("worker1", echo, (message,))

        def ping(message: Tensor = message) -> None:
            dist.send(message, 1)
            dist.recv(message, 1)

        if place.rank == 0:
            ways = {"RPC": call, "gloo": ping}
            times[size] = in_turns(ways, rounds, place.device)
        else:
            for _ in range(1 + rounds):  # in_turns has one round to settle
                dist.recv(message, 0)
                dist.send(message, 0)

    dist.barrier()
    before = time.process_time()
    time.sleep(1)
    idle = time.process_time() - before
    rpc.shutdown()
    return times, idle


@record
def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    place = here(gpus=0)  # RPC and gloo both send what is on the CPU
    start(place)
    if place.world_size != 2:
        raise ValueError("a message needs two ranks")
    times = {}
    idle = {}
    for transport in ["shm", "uv"]:
        times[transport], idle[transport] = compare(transport, args.rounds, place)
    report("price", place, times=times, idle=idle)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
