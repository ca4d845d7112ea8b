"""A transport of our own: ranks of one machine add their gradients in memory that they share.

Run:  python shared.py
      torchrun --standalone --nproc-per-node=2 shared.py
"""

import mmap
import os
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report

ROOM = 2**18  # float32 numbers that a rank lays down at a time: 1 MiB, which stays in a core's cache


class Shared:
    """Memory that all ranks of one machine see: a counter for each, and two slots for each, used in turn."""

    def __init__(self, place: Place, timeout: float = 60):
        self.rank, self.ranks, self.timeout, self.turn = place.rank, place.world_size, timeout, 0
        if int(os.environ["LOCAL_WORLD_SIZE"]) != self.ranks:
            raise RuntimeError(f"{self.ranks} ranks on several machines share no memory: leave this hook out.")
        size, name = 8 * self.ranks + 2 * self.ranks * ROOM * 4, [""]
        memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # files there lie in memory
        try:
            if self.rank == 0:
                file, name[0] = tempfile.mkstemp(prefix="shared-", dir=memory)
                room = os.write(file, bytes(size))
            dist.broadcast_object_list(name, src=0, device=place.device)
            if self.rank:
                file = os.open(name[0], os.O_RDWR)
            dist.barrier()  # all have opened it: the name can go, the memory stays until the last rank ends
        finally:
            self.file = Path(name[0])
            if self.rank == 0 and name[0]:
                self.file.unlink()
        if self.rank == 0 and room < size:
            raise OSError(f"no room for {size:,} bytes in {self.file.parent}")
        memory = mmap.mmap(file, size)
        os.close(file)
        self.counters = memoryview(memory)[: 8 * self.ranks].cast("q")
        slots = torch.frombuffer(memory, dtype=torch.float32, offset=8 * self.ranks)
        self.slots = slots.view(2, self.ranks, ROOM)

    def wait(self) -> None:
        """A barrier: nobody goes on before all ranks have come here as often as this one."""
        self.turn += 1
        self.counters[self.rank] = self.turn  # x86 shows it after the slot; ARM would need a memory fence here
        deadline = time.monotonic() + self.timeout
        while min(self.counters) < self.turn:
            if time.monotonic() > deadline:
                raise RuntimeError(f"rank {self.rank} waited {self.timeout:.0f} s at turn {self.turn} of shared memory")
            os.sched_yield()  # lets another process have this core; sleep(0) may take 50 µs

    def average(self, flat: Tensor) -> None:
        """The mean over all ranks of a float32 tensor (N,), in place, added in the same order everywhere."""
        host = flat.cpu()  # itself, unless it is on a GPU
        for part in host.split(ROOM):
            slots = self.slots[self.turn % 2, :, : len(part)]  # the other half may still be read by a slower rank
            torch.div(part, self.ranks, out=slots[self.rank])
            self.wait()
            total = slots[0]
            for slot in slots[1:]:
                total = torch.add(total, slot, out=part)
        flat.copy_(host)


def hook(shared: Shared, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """For `register_comm_hook`: DDP gives a bucket and takes a future of its average."""
    shared.average(flat := bucket.buffer())
    future: torch.futures.Future[Tensor] = torch.futures.Future(devices=[flat.device] if flat.is_cuda else [])
    future.set_result(flat)
    return future


@record
def main() -> None:
    place = here()
    nccl = place.device if place.backend == "nccl" else None  # tells a barrier which GPU is meant
    dist.init_process_group(place.backend, timeout=timedelta(seconds=60), device_id=nccl)
    Shared(place).average(mean := torch.full((3,), float(place.rank), device=place.device))
    print(f"rank {place.rank} has {mean.tolist()}\n", end="")
    report("shared", place, mean=mean.tolist())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
