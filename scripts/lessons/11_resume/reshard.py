"""Save a table in pieces from two ranks, load it on three and on one; and save without keeping the training waiting.

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

from devices import here, report

ROWS, COLUMNS = 12, 4


def in_pieces(whole: torch.Tensor, ranks: int) -> DTensor:
    """A tensor of which each of the first so many ranks holds some rows. Every rank of the world calls this."""
    mesh = DeviceMesh("cpu", list(range(ranks)))
    return distribute_tensor(whole, mesh, [Shard(0)])


def timed(rounds: int, big: DTensor, folder: Path) -> dict[str, float]:
    """Seconds that the training stands still for a save, for an async save, and until that one is on the disk."""
    seconds = {"save": [], "async_save": [], "written": []}
    for n in range(rounds + 1):
        big.to_local().fill_(n)
        dist.barrier()
        start = time.perf_counter()
        dcp.save({"big": big}, checkpoint_id=folder / f"sync-{n}")
        seconds["save"].append(time.perf_counter() - start)
        dist.barrier()
        start = time.perf_counter()
        writing = dcp.async_save({"big": big}, checkpoint_id=folder / f"async-{n}")
        seconds["async_save"].append(time.perf_counter() - start)
        big.to_local().fill_(-1)  # the training goes on, and changes what is being written
        writing.result()
        seconds["written"].append(time.perf_counter() - start)
    return {name: median(values[1:]) for name, values in seconds.items()}  # the first round starts threads


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=64, help="size of the tensor whose saving is timed")
    parser.add_argument("--rounds", type=int, default=3)
    args, place, folder = parser.parse_args(), here(), Path("sharded")
    rank, world_size = place.rank, place.world_size
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))  # on the CPU: files are written from there anyway
    if rank == 0:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    dist.barrier()

    writers = min(2, world_size)
    numbers = torch.arange(float(ROWS * COLUMNS)).view(ROWS, COLUMNS)
    table = in_pieces(numbers.clone(), writers)
    group = dist.new_group(list(range(writers)))
    written = table.to_local()[:, 0].tolist() if rank < writers else []
    if rank < writers:
        dcp.save({"table": table, "step": 28}, checkpoint_id=folder / "table", process_group=group)
    dist.barrier()
    files = {path.name: path.stat().st_size for path in sorted((folder / "table").iterdir())}

    state = {"table": in_pieces(torch.zeros(ROWS, COLUMNS), world_size), "step": 0}
    dcp.load(state, checkpoint_id=folder / "table")  # into the tensors that are there: each rank reads its own rows
    read = state["table"].to_local()[:, 0].tolist()
    alone = {"table": torch.zeros(ROWS, COLUMNS), "step": 0}
    warnings.filterwarnings("ignore", "torch.distributed is disabled")  # said of a load without the others, as meant
    dcp.load(alone, checkpoint_id=folder / "table", no_dist=True)
    right = {"pieces": torch.equal(state["table"].full_tensor(), numbers), "one": torch.equal(alone["table"], numbers)}

    big = in_pieces(torch.zeros(args.megabytes * 2**18), world_size)
    seconds = timed(args.rounds, big, folder)
    dcp.load({"big": big}, checkpoint_id=folder / f"async-{args.rounds}")
    kept = bool((big.to_local() == args.rounds).all())  # and not -1
    if rank == 0:
        print(f"files: {', '.join(files)}; {writers} ranks wrote, {world_size} and 1 read, step {state['step']}")
        print(", ".join(f"{name} {1000 * value:.0f} ms" for name, value in seconds.items()))
    rows = {"written": written, "read": read, "files": files, "right": right, "step": [state["step"], alone["step"]]}
    dist.barrier()
    shutil.rmtree(folder, ignore_errors=True)
    report("reshard", place, kept=kept, seconds=seconds, **rows)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
