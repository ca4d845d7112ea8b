"""A server that collects several callers' requests, and answers them with one forward pass.

Run:  python batching.py
      torchrun --standalone --nproc-per-node=2 batching.py
"""

import threading
import time
from argparse import ArgumentParser

import torch
import torch.distributed.rpc as rpc
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.futures import Future

from devices import here, report
from workers import join
from yardstick import apart

REQUESTS = 128
WIDTHS = {"heavy": 2048, "light": 128}  # 9.5 million weights, and 100 thousand


def network(width: int) -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Linear(512, width), nn.ReLU()]
    for _ in range(2):
        layers += [nn.Linear(width, width), nn.ReLU()]
    layers.append(nn.Linear(width, 10))
    return nn.Sequential(*layers).eval()


class Batcher:
    """Answers `size` requests at a time; if that is given, none waits longer than `patience` s."""

    def __init__(self, width: int, size: int, patience: float | None = None) -> None:
        self.model = network(width)
        self.size = size
        self.patience = patience
        self.lock = threading.Lock()
        self.rows = []  # of the requests that are waiting
        self.answers = Future()  # to them, one row for each
        self.forwards = 0

    @staticmethod
    @rpc.functions.async_execution
    def ask(rref: rpc.RRef, row: Tensor) -> Future:
        """One row of answers, later."""
        batcher = rref.local_value()
        with batcher.lock:
            number = len(batcher.rows)
            batcher.rows.append(row)
            answers = batcher.answers
            full = len(batcher.rows) == batcher.size
            rows = batcher.take() if full else []
        own = answers.then(lambda future: future.value()[number].clone())
        if full:
            batcher.run(rows, answers)
        # BEGIN SOLUTION
        elif number == 0 and batcher.patience:
            threading.Timer(batcher.patience, batcher.flush, (answers,)).start()
        # STUB # nobody sets an alarm
        # END SOLUTION
        return own

    def flush(self, answers: Future) -> None:
        """Answer the requests that wait for `answers` now, unless they have been answered."""
        with self.lock:
            rows = self.take() if answers is self.answers else []
        if rows:
            self.run(rows, answers)

    def take(self) -> list[Tensor]:
        """The requests that are waiting; the next ones begin a new batch. Needs the lock."""
        rows = self.rows
        self.rows = []
        self.answers = Future()
        self.forwards += 1
        return rows

    def run(self, rows: list[Tensor], answers: Future) -> None:
        with torch.inference_mode():
            output = self.model(torch.stack(rows))
        answers.set_result(output)

    def count(self) -> int:
        return self.forwards


def asked(to: str, rows: Tensor, *arguments, pause: float = 0, timeout: float = 30) -> dict:
    """Ask a new server for all rows at once; the last one after a pause."""
    rref = rpc.remote(to, Batcher, arguments)
    rref.rpc_sync().count()  # wait until it is there
    began = time.perf_counter()
    futures = [rpc.rpc_async(to, Batcher.ask, (rref, row), timeout=timeout) for row in rows[:-1]]
    time.sleep(pause)
    futures.append(rpc.rpc_async(to, Batcher.ask, (rref, rows[-1]), timeout=timeout))
    answers = None
    message = ""
    try:
        answers = torch.stack(torch.futures.wait_all(futures))
    except RuntimeError as error:
        message = str(error)
    seconds = time.perf_counter() - began
    forwards = rref.rpc_sync().count()
    return {"seconds": seconds, "forwards": forwards, "said": message, "answers": answers}


@record
def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    place = here(gpus=0)
    join(place)
    told = {}
    if place.rank == 0:
        last = f"worker{place.world_size - 1}"
        rows = torch.randn(REQUESTS, 512)
        runs = []
        for net, width in WIDTHS.items():
            with torch.inference_mode():
                right = network(width)(rows)
            others = right.flip(0)  # answers to other requests
            for size in args.sizes * args.rounds:
                run = asked(last, rows, width, size)
                gap = apart(run.pop("answers"), right, others)
                runs.append(run | {"net": net, "size": size, "gap": gap})

        # Three requests for a server that waits for four; then six, for one with an alarm.
        half = asked(last, rows[:3], 128, 4, timeout=1)
        own = asked(last, rows[:6], 128, 4, 0.2, timeout=2)
        answers = own.pop("answers")
        own["right"] = answers is not None and apart(answers, right[:6], others[:6]) < 1e-5
        # After a full batch, a request that comes by itself waits for its own alarm.
        lone = asked(last, rows[:5], 128, 4, 0.6, pause=0.3, timeout=3)
        own["lone request"] = lone["seconds"] - 0.3
        # A batch that is full must not wait for its alarm.
        full = asked(last, rows[:4], 128, 4, 1.0, timeout=5)
        own["full batch"] = full["seconds"]
        told = {"runs": runs, "half": half, "own": own}
    report("batching", place, **told)
    rpc.shutdown()


if __name__ == "__main__":
    main()
