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


def waits(big: DTensor, number: int, group: dist.ProcessGroup, place: Place) -> dict:
    """Seconds that the training waits for a save, for an async save, and until that is written.

    The tensor is filled with a number first, to tell what is in the files. `group` is for the
    thread that writes: in the training's own group their messages would meet.
    """
    big.to_local().fill_(number)
    dist.barrier()
    begun = time.perf_counter()
    dcp.save({"big": big}, checkpoint_id=FOLDER / f"sync-{number}")
    saved = time.perf_counter() - begun

    dist.barrier()
    begun = time.perf_counter()
    path = FOLDER / f"async-{number}"
    writing = dcp.async_save({"big": big}, checkpoint_id=path, process_group=group)
    called = time.perf_counter() - begun
    big.to_local().fill_(-1)  # the training goes on, and changes what is being written
    beside = train_beside(writing, place)
    writing.result()  # raises what went wrong, such as a full disk
    written = time.perf_counter() - begun
    return {"save": saved, "async_save": called, "written": written} | beside


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=64, help="of the tensor that is saved")
    parser.add_argument("--rounds", type=int, default=3)
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
    rounds = [waits(big, number, group, place) for number in range(args.rounds + 1)]
    # Which values are in a file that was written while the tensor changed?
    dcp.load({"big": big}, checkpoint_id=FOLDER / f"async-{args.rounds}")
    values = big.to_local()
    kept = bool((values == args.rounds).all())  # and not -1
    rounds = rounds[1:]  # the first one starts threads, and does not count
    if place.rank == 0:
        for times in rounds:
            each = []
            for name in ("save", "async_save", "written"):
                milliseconds = 1000 * times[name]
                each.append(f"{name} {milliseconds:.0f} ms")
            print(", ".join(each), f"with {times['steps']} steps beside it")
    dist.barrier()
    shutil.rmtree(FOLDER, ignore_errors=True)
    report("meanwhile", place, kept=kept, rounds=rounds)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
