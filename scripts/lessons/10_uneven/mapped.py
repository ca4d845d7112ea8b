"""All ranks read the same file: does each have a copy in memory, or do they share one?

Run:  torchrun --standalone --nproc-per-node=2 mapped.py
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report, start

MEGABYTES = 64
FOLDER = Path("mapped")
TELLS = Path("/proc/self/smaps_rollup")  # Linux has it


def memory() -> dict[str, float] | None:
    """Megabytes of this process; None where the system does not tell.

    Anonymous: from no file, so nobody else has it. Pss: what it shares with n - 1 other processes
    counts 1 / n.
    """
    if not TELLS.exists():
        return None
    sizes = dict(re.findall(r"^(\w+): +(\d+) kB", TELLS.read_text(), re.MULTILINE))
    return {name: int(sizes[name]) / 1024 for name in ("Anonymous", "Pss")}


WAYS: dict[str, Callable] = {
    "np.load": lambda: np.load(FOLDER / "x.npy"),
    "np.load, mmap_mode='r'": lambda: np.load(FOLDER / "x.npy", mmap_mode="r"),
    "torch.load": lambda: torch.load(FOLDER / "x.pt"),
    "torch.load, mmap=True": lambda: torch.load(FOLDER / "x.pt", mmap=True),
}


def growth(load: Callable, place: Place) -> dict[str, float] | None:
    """Megabytes that this rank has more when all ranks have loaded the data, and read all of it."""
    dist.barrier()
    before = memory()
    data = load()
    total = float(data.sum())
    assert total == MEGABYTES * 2**18, "these are not the numbers that rank 0 wrote"
    dist.barrier()
    after = memory()
    dist.barrier()  # until here, nobody gives it back
    if before is None:
        return None
    return {name: after[name] - before[name] for name in before}


@record
def main() -> None:
    place = here(gpus=0)
    start(place)
    if place.rank == 0:
        FOLDER.mkdir(exist_ok=True)
        ones = np.ones(MEGABYTES * 2**18, dtype=np.float32)
        np.save(FOLDER / "x.npy", ones)
        torch.save(torch.from_numpy(ones), FOLDER / "x.pt")
        del ones
    dist.barrier()
    grown = {way: growth(load, place) for way, load in WAYS.items()}
    dist.barrier()
    if place.rank == 0:
        shutil.rmtree(FOLDER)
    report("mapped", place, grown=grown, megabytes=MEGABYTES)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
