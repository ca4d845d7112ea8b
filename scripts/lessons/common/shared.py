"""A transport of our own: ranks of one machine add their gradients in memory that they share.

Run:  python shared.py
      torchrun --standalone --nproc-per-node=2 shared.py
"""

import mmap
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report, start

SLOT = 2**18  # float32 numbers in a slot: 1 MiB, which stays in a core's cache
MEMORY = Path("/dev/shm")  # files there lie in memory


def open_together(size: int, place: Place) -> tuple[int, Path]:
    """One new file of `size` bytes, open on every rank: its number on this rank, and its old name.

    The name is gone already. The bytes stay until the last rank that has the file open ends.
    OSError on rank 0 if there is no room for the file.
    """
    name = [""]  # a list, since that is what ranks can broadcast
    written = 0
    try:
        if place.rank == 0:
            folder = MEMORY if MEMORY.is_dir() else None
            file, name[0] = tempfile.mkstemp(prefix="shared-", dir=folder)
            written = os.write(file, bytes(size))
        dist.broadcast_object_list(name, src=0, device=place.device)
        if place.rank > 0:
            file = os.open(name[0], os.O_RDWR)
        dist.barrier()  # all have opened it, so its name can go
    finally:
        path = Path(name[0])
        if place.rank == 0 and name[0]:
            path.unlink()
    if place.rank == 0 and written < size:
        raise OSError(f"no room for {size:,} bytes in {path.parent}")
    return file, path


class Shared:
    """Memory that all ranks of one machine see: for each rank a counter, and two slots in turn."""

    def __init__(self, place: Place, timeout: float = 60):
        self.rank = place.rank
        self.ranks = place.world_size
        self.timeout = timeout
        self.turn = 0
        if int(os.environ["LOCAL_WORLD_SIZE"]) != self.ranks:
            raise RuntimeError(
                f"{self.ranks} ranks on several machines share no memory: leave this hook out."
            )
        counters = 8 * self.ranks  # bytes
        slots = 4 * 2 * self.ranks * SLOT
        file, self.file = open_together(counters + slots, place)
        memory = mmap.mmap(file, counters + slots)
        os.close(file)
        self.counters = memoryview(memory)[:counters].cast("q")
        numbers = torch.frombuffer(memory, dtype=torch.float32, offset=counters)
        self.slots = numbers.view(2, self.ranks, SLOT)

    def wait(self) -> None:
        """A barrier: nobody goes on before all ranks have come here as often as this one."""
        self.turn += 1
        # x86 shows the counter after the slot; ARM would need a memory fence here.
        self.counters[self.rank] = self.turn
        deadline = time.monotonic() + self.timeout
        while min(self.counters) < self.turn:
            if time.monotonic() > deadline:
                waited = f"rank {self.rank} waited {self.timeout:.0f} s"
                raise RuntimeError(f"{waited} at turn {self.turn} of shared memory")
            os.sched_yield()  # lets another process have this core; sleep(0) may take 50 µs

    def average(self, flat: Tensor) -> None:
        """The mean over all ranks of a float32 tensor (N,), in place; all add in the same order."""
        host = flat.cpu()  # itself, unless it is on a GPU
        for part in host.split(SLOT):
            # The other half may still be read by a slower rank.
            slots = self.slots[self.turn % 2, :, : len(part)]
            torch.div(part, self.ranks, out=slots[self.rank])
            self.wait()
            total = slots[0]
            for slot in slots[1:]:
                total = torch.add(total, slot, out=part)
        flat.copy_(host)


def hook(shared: Shared, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """For `register_comm_hook`: DDP gives a bucket and takes a future of its average."""
    flat = bucket.buffer()
    shared.average(flat)
    devices = [flat.device] if flat.is_cuda else []
    future: torch.futures.Future[Tensor] = torch.futures.Future(devices=devices)
    future.set_result(flat)
    return future


@record
def main() -> None:
    place = here()
    start(place)
    mean = torch.full((3,), float(place.rank), device=place.device)
    Shared(place).average(mean)
    print(f"rank {place.rank} has {mean.tolist()}\n", end="")
    report("shared", place, mean=mean.tolist())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
