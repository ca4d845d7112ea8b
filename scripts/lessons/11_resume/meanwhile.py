"""Save while a training goes on: how long does it wait, and which values are in the file?

Run:  python meanwhile.py                                              # one process
      torchrun --standalone --nproc-per-node=2 meanwhile.py            # two ranks
"""

import argparse
import shutil
import time
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.tensor import DTensor

from devices import Place, here, report, start
from reshard import in_pieces
from stopwatch import in_turns, slowest

FOLDER = Path("meanwhile")


def train_beside(writing: Future, place: Place) -> dict[str, int]:
    """Steps that all ranks make together until all have written, and in how many the sum was right.

    Each adds up a gradient over the default group, as DDP does.
    """
    expected = sum(range(1, place.world_size + 1))
    steps = 0
    right = 0
    finished = torch.zeros(())
    while finished < place.world_size:
        gradient = torch.full((1000,), 1.0 + place.rank)
        dist.all_reduce(gradient)
        equal = gradient == expected
        right += int(equal.all())
        steps += 1
        finished = torch.tensor(float(writing.done()))
        dist.all_reduce(finished)
    return {"steps": steps, "right": right}


class Saves:
    """Two ways to save a tensor, and the training that goes on beside the second."""

    def __init__(self, big: DTensor, group: dist.ProcessGroup, place: Place):
        self.big = big
        self.group = group  # for the thread that writes: in the training's own, messages would meet
        self.place = place
        self.number = 0  # what fills the tensor, to tell what is in a file
        self.writing: Future | None = None
        self.beside: list[dict] = []  # what went on while each asynchronous save was written

    def begin(self) -> None:
        """Ahead of each way, outside of its time: nothing is being written, the values are new."""
        self.finish()
        self.number += 1
        self.big.to_local().fill_(self.number)
        dist.barrier()

    def save(self) -> None:
        dcp.save({"big": self.big}, checkpoint_id=FOLDER / f"{self.number}")

    def async_save(self) -> None:
        self.begun = time.perf_counter()
        path = FOLDER / f"{self.number}"
        state = {"big": self.big}
        self.writing = dcp.async_save(state, checkpoint_id=path, process_group=self.group)

    def finish(self) -> None:
        """Train beside the save that is on its way, if there is one, until it is written."""
        if self.writing is None:
            return
        self.big.to_local().fill_(-1)  # the training changes what is being written
        steps = train_beside(self.writing, self.place)
        self.writing.result()  # raises what went wrong, such as a full disk
        written = time.perf_counter() - self.begun
        self.beside.append({"number": self.number, "written": written} | steps)
        self.writing = None


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=64, help="of the tensor that is saved")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    # gloo, on the CPU: files are written from there anyway.
    place = here(gpus=0)
    start(place)
    group = dist.new_group(backend="gloo", timeout=timedelta(seconds=60))
    if place.rank == 0:
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir()
    dist.barrier()

    zeros = torch.zeros(args.megabytes * 2**18)
    big = in_pieces(zeros, place.world_size)
    saves = Saves(big, group, place)
    ways = {"save": saves.save, "async_save": saves.async_save}
    times = in_turns(ways, args.rounds, place.device, before=saves.begin)
    saves.finish()
    # Which values are in a file that was written while the tensor changed?
    last = saves.beside[-1]["number"]
    dcp.load({"big": big}, checkpoint_id=FOLDER / f"{last}")
    values = big.to_local()
    kept = bool((values == last).all())  # and not -1

    # The training waits for its slowest rank. The first round only starts threads.
    rounds = []
    pairs = zip(times["save"], times["async_save"], strict=True)
    for (own, other), beside in zip(pairs, saves.beside[1:], strict=True):
        waited = {"save": slowest(own, place.device), "async_save": slowest(other, place.device)}
        rounds.append(waited | beside)
    if place.rank == 0:
        for row in rounds:
            each = []
            for name in ("save", "async_save", "written"):
                milliseconds = 1000 * row[name]
                each.append(f"{name} {milliseconds:.0f} ms")
            print(", ".join(each), f"with {row['steps']} steps beside it")
    dist.barrier()
    shutil.rmtree(FOLDER, ignore_errors=True)
    size = big.numel() * big.element_size()  # bytes, of all ranks
    report("meanwhile", place, kept=kept, rounds=rounds, size=size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
