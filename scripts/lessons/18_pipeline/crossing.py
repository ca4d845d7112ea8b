"""The messages of a pipeline without its computing: what if each send waits until it has arrived?

Meant to fail with two ranks or more, after some seconds of silence; with --own it uses your `post`.

Run:  torchrun --standalone --nproc-per-node=2 crossing.py
      torchrun --standalone --nproc-per-node=3 crossing.py --own
"""

import time
from argparse import ArgumentParser
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report, start
from pipeline import order

PARTS = 4
SIZE = 1000  # numbers in a message


def wait_and_post(tensor: Tensor, to: int, group: dist.ProcessGroup, sent: list) -> None:
    """Send a tensor. `dist.send` returns when the other rank has taken it."""
    dist.send(tensor, to, group)


def post(tensor: Tensor, to: int, group: dist.ProcessGroup, sent: list) -> None:
    """Send a tensor without waiting. `sent` holds what is waited for in the end."""
    # BEGIN SOLUTION
    sent.append(dist.isend(tensor, to, group))
    # STUB dist.send(tensor, to, group)
    # END SOLUTION


def trade(schedule: str, send: Callable, place: Place, group: dist.ProcessGroup) -> list[str]:
    """All messages of one step; the names of those that have arrived here."""
    arrived = []
    sent = []
    for kind, i in order(schedule, place.rank, place.world_size, PARTS):
        direction = 1 if kind == "F" else -1
        source = place.rank - direction
        to = place.rank + direction
        doing = ""
        try:
            if 0 <= source < place.world_size:
                doing = f"waits for {kind}{i} from rank {source}"
                message = torch.empty(SIZE)
                dist.recv(message, source, group)
                number = int(message[-1])
                arrived.append(f"{kind}{number}")
            if 0 <= to < place.world_size:
                doing = f"sends {kind}{i} to rank {to}"
                message = torch.full((SIZE,), float(i))
                send(message, to, group, sent)
        except RuntimeError as error:
            raise RuntimeError(f"{schedule}, rank {place.rank} {doing}: {error}") from None
    for message in sent:
        message.wait()
    return arrived


@record
def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=5, help="seconds to wait for a message")
    parser.add_argument("--own", action="store_true", help="use the exercise's function")
    args = parser.parse_args()
    place = here(gpus=0)  # gloo everywhere: the messages read the same with and without GPUs
    start(place)
    sender = post if args.own else wait_and_post
    arrived = {}
    said = ""
    for schedule in ["GPipe", "1F1B"]:
        dist.barrier()
        # All ranks are here: from now on, little patience.
        limit = timedelta(seconds=args.limit)
        group = dist.new_group(timeout=limit)
        try:
            arrived[schedule] = trade(schedule, sender, place, group)
        except RuntimeError as error:
            said = str(error)
            print(f"{said}\n", end="", flush=True)
            if not args.own:
                time.sleep(1)  # for the other rank, which is about to say the same
                raise
        if place.rank == 0 and not said:
            print(f"{schedule}: all messages have arrived", flush=True)
    report("crossing", place, arrived=arrived, said=said)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
