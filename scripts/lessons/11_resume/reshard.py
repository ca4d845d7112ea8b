"""Save a table in pieces from two ranks, and load it on three and on one.

Then a larger tensor is saved, with and without keeping the training waiting.

Run:  python reshard.py                                              # one process
      torchrun --standalone --nproc-per-node=3 reshard.py            # two ranks write, three read
"""

import argparse
import shutil
import time
import warnings
from datetime import timedelta
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from devices import Place, here, report

ROWS = 12
COLUMNS = 4
FOLDER = Path("sharded")


def in_pieces(whole: torch.Tensor, ranks: int) -> DTensor:
    """A tensor of which each of the first so many ranks holds some rows. Every rank calls this."""
    mesh = DeviceMesh("cpu", list(range(ranks)))
    return distribute_tensor(whole, mesh, [Shard(0)])


def write(numbers: torch.Tensor, writers: int, place: Place) -> list[float]:
    """Save the numbers in pieces from the first ranks; the first column of this rank's rows."""
    table = in_pieces(numbers.clone(), writers)
    group = dist.new_group(list(range(writers)))
    if place.rank >= writers:
        return []
    state = {"table": table, "step": 28}
    dcp.save(state, checkpoint_id=FOLDER / "table", process_group=group)
    return table.to_local()[:, 0].tolist()


def read_together(place: Place) -> dict:
    """The state on all ranks; each reads its own rows, into the tensor that is there."""
    state = {"table": in_pieces(torch.zeros(ROWS, COLUMNS), place.world_size), "step": 0}
    dcp.load(state, checkpoint_id=FOLDER / "table")
    return state


def read_alone() -> dict:
    """The whole state on this rank, without the others."""
    state = {"table": torch.zeros(ROWS, COLUMNS), "step": 0}
    # It warns of a load without the others, which is meant here.
    warnings.filterwarnings("ignore", "torch.distributed is disabled")
    dcp.load(state, checkpoint_id=FOLDER / "table", no_dist=True)
    return state


def waits(big: DTensor, number: int) -> dict[str, float]:
    """Seconds that the training waits for a save, for an async save, and until that is written.

    The tensor is filled with a number first, to tell what is in the files.
    """
    big.to_local().fill_(number)
    dist.barrier()
    begun = time.perf_counter()
    dcp.save({"big": big}, checkpoint_id=FOLDER / f"sync-{number}")
    saved = time.perf_counter() - begun

    dist.barrier()
    begun = time.perf_counter()
    writing = dcp.async_save({"big": big}, checkpoint_id=FOLDER / f"async-{number}")
    called = time.perf_counter() - begun
    big.to_local().fill_(-1)  # the training goes on, and changes what is being written
    writing.result()
    written = time.perf_counter() - begun
    return {"save": saved, "async_save": called, "written": written}


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=64, help="of the tensor that is timed")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    place = here()
    # gloo, on the CPU: files are written from there anyway.
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    if place.rank == 0:
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir()
    dist.barrier()

    # Two ranks write the table, all read it, and one reads it alone.
    writers = min(2, place.world_size)
    numbers = torch.arange(float(ROWS * COLUMNS)).view(ROWS, COLUMNS)
    written = write(numbers, writers, place)
    dist.barrier()
    paths = sorted((FOLDER / "table").iterdir())
    files = {path.name: path.stat().st_size for path in paths}
    state = read_together(place)
    alone = read_alone()
    table = state["table"]
    read = table.to_local()[:, 0].tolist()
    right = {"pieces": torch.equal(table.full_tensor(), numbers)}
    right["one"] = torch.equal(alone["table"], numbers)

    # Which values are in a file that was written while the tensor changed?
    big = in_pieces(torch.zeros(args.megabytes * 2**18), place.world_size)
    rounds = [waits(big, number) for number in range(args.rounds + 1)]
    dcp.load({"big": big}, checkpoint_id=FOLDER / f"async-{args.rounds}")
    kept = bool((big.to_local() == args.rounds).all())  # and not -1
    # The first round starts threads, and does not count.
    seconds = {name: median(times[name] for times in rounds[1:]) for name in rounds[0]}
    if place.rank == 0:
        ranks = f"{writers} ranks wrote, {place.world_size} and 1 read"
        print(f"files: {', '.join(files)}; {ranks}, step {state['step']}")
        times = [f"{name} {1000 * value:.0f} ms" for name, value in seconds.items()]
        print(", ".join(times))
    dist.barrier()
    shutil.rmtree(FOLDER, ignore_errors=True)
    results = {"written": written, "read": read, "files": files, "right": right}
    steps = [state["step"], alone["step"]]
    report("reshard", place, kept=kept, seconds=seconds, **results, step=steps)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
