"""Answer requests with an exported model, in batches. Of the model there is no source here.

It listens on this machine alone, and ends with the process whose number it is given.
Run:  python serve.py --owner $$                       # port 8000
      torchrun --standalone --nproc-per-node=2 serve.py --owner $$      # ports 8000 and 8001
"""

import asyncio
import json
import os
import signal
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from contextlib import suppress
from importlib.util import find_spec

import psutil
import torch
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from batches import work
from devices import Place, here, report
from door import HEAD, Door, Refused

HOST = "127.0.0.1"  # this machine alone; "0.0.0.0" would be everybody who can reach it
WAITING = 64  # requests that wait for the model at most


class Server:
    """One model, the requests that wait for it, and what it has done so far."""

    def __init__(self, args: Namespace):
        self.args = args
        extra = {"card.json": ""}
        program = torch.export.load(args.file, extra_files=extra)
        self.model = program.module()
        self.classes = json.loads(extra["card.json"])["classes"]
        self.waiting: asyncio.Queue = asyncio.Queue(WAITING)
        self.batches: Counter = Counter()

    def compute(self, numbers: list[list[int]]) -> tuple[Tensor, float]:
        """Probabilities, a row for each picture, and the milliseconds that they took."""
        began = time.perf_counter()
        rows = torch.tensor(numbers, dtype=torch.uint8)
        pictures = rows.view(-1, 3, 32, 32)
        with torch.inference_mode():
            probabilities = self.model(pictures)
        seconds = time.perf_counter() - began
        return probabilities, 1000 * seconds

    async def work(self) -> None:
        """Without end: batch after batch."""
        await work(self.waiting, self.args.batch, self.args.patience, self.compute, self.batches)

    async def answer(self, numbers: list[int]) -> dict:
        """What is in the picture with these numbers, as soon as its batch is computed."""
        asked = time.perf_counter()
        future = asyncio.get_running_loop().create_future()
        try:
            self.waiting.put_nowait((numbers, future))
        except asyncio.QueueFull:
            raise Refused(503, "too many requests are waiting: ask again later") from None
        row, batch, model_ms = await future
        wait_ms = 1000 * (time.perf_counter() - asked) - model_ms
        answer = {"class": self.classes[row.argmax()], "probabilities": row.tolist()}
        return answer | {"batch": batch, "wait_ms": wait_ms, "model_ms": model_ms}


async def serve(server: Server, place: Place) -> None:
    """Answer until SIGTERM comes or the owner has gone; then finish what has begun."""
    args = server.args
    working = asyncio.create_task(server.work())
    port = args.port + place.rank
    door = Door(server.answer)
    listener = await asyncio.start_server(door.connection, HOST, port, limit=HEAD)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    facts = {"pid": os.getpid(), "port": port, "source": find_spec("model") is not None}
    facts |= {"batch": args.batch, "patience": args.patience}
    report("serve", place, **facts)
    while not ended.is_set() and psutil.pid_exists(args.owner) and not working.done():
        with suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), 0.5)
    listener.close()
    door.ending = True
    while door.open and not working.done():
        await asyncio.sleep(0.05)
    if working.done():
        working.result()  # the model has failed: say so
    report("serve", place, **facts, batches=server.batches, statuses=door.statuses)


@record
def main() -> None:
    place = here()
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", default="served.pt2", help="what torch.export has saved")
    parser.add_argument("--port", type=int, default=8000, help="of rank 0; rank 1 has the next")
    parser.add_argument("--batch", type=int, default=16, help="pictures at most in one batch")
    parser.add_argument("--patience", type=float, default=5, help="ms that a batch waits")
    parser.add_argument("--owner", type=int, required=True, help="ends with this process")
    args = parser.parse_args()
    torch.set_num_threads(1)
    asyncio.run(serve(Server(args), place))


if __name__ == "__main__":
    main()
