"""Save a table in pieces from two ranks, and load it on three and on one.

Run:  python reshard.py                                              # one process
      torchrun --standalone --nproc-per-node=3 reshard.py            # two ranks write, three read
"""

import shutil
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from devices import Place, here, report, start
from yardstick import apart

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
    rows = table.to_local()
    return rows[:, 0].tolist()


def read_together(place: Place) -> dict:
    """The state on all ranks; each reads its own rows, into the tensor that is there."""
    zeros = torch.zeros(ROWS, COLUMNS)
    state = {"table": in_pieces(zeros, place.world_size), "step": 0}
    dcp.load(state, checkpoint_id=FOLDER / "table")
    return state


def read_alone() -> dict:
    """The whole state on this rank, without the others."""
    state = {"table": torch.zeros(ROWS, COLUMNS), "step": 0}
    # It warns of a load without the others, which is meant here.
    warnings.filterwarnings("ignore", "torch.distributed is disabled")
    dcp.load(state, checkpoint_id=FOLDER / "table", no_dist=True)
    return state


@record
def main() -> None:
    # gloo, on the CPU: files are written from there anyway.
    place = here(gpus=0)
    start(place)
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
    together = table.full_tensor()
    # 0.0: the same bits. Rows in another order would be far off.
    other_order = numbers.flip(0)
    off = {}
    off["pieces"] = apart(together, numbers, wrong=other_order)
    off["one"] = apart(alone["table"], numbers, wrong=other_order)

    if place.rank == 0:
        ranks = f"{writers} ranks wrote, {place.world_size} and 1 read"
        print(f"files: {', '.join(files)}; {ranks}, step {state['step']}")
    dist.barrier()
    shutil.rmtree(FOLDER, ignore_errors=True)
    results = {"written": written, "read": read, "files": files, "off": off}
    steps = [state["step"], alone["step"]]
    report("reshard", place, **results, step=steps)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
