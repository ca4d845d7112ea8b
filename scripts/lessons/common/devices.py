"""Who am I, and where do I compute? The course's device policy, in one place.

Run:  python devices.py                                              # one process
      torchrun --standalone --nproc-per-node=2 devices.py            # two ranks
"""

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

# What torchrun would say to the only rank of a training; port 0 is any free one.
ALONE = {
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "0",
}


class Place(NamedTuple):
    rank: int  # number of this process among all
    local_rank: int  # number of this process on this machine
    world_size: int  # how many processes there are in all
    device: torch.device
    backend: str  # the library that carries messages between the ranks

    @property
    def bound(self) -> torch.device | None:
        """The GPU that a process group is bound to (`device_id=`): this rank's on nccl, none on gloo.

        Bound, nccl connects the ranks as soon as the group is made. Otherwise the first collective connects them, in a
        call that no time limit ends (pytorch#88103): a rank that is missing there is waited for without end. gloo has
        no such step, and a CPU as `device_id` raises an error.
        """
        return self.device if self.backend == "nccl" else None


def choose(gpus: int, local_world_size: int, local_rank: int) -> tuple[str, str]:
    """Device and backend of one rank, as ("cuda:1", "nccl"), from the numbers of GPUs and ranks on its machine."""
    if gpus >= local_world_size:
        return f"cuda:{local_rank}", "nccl"
    if gpus > 0:  # fewer GPUs than ranks: they share, over gloo, since nccl by default refuses two ranks on one GPU
        return f"cuda:{local_rank % gpus}", "gloo"
    return "cpu", "gloo"


def low_precision(capability: tuple[int, int] | None) -> torch.dtype:
    """The 16-bit type for a GPU of this compute capability (None: a CPU). A T4 is (7, 5), without bf16 units."""
    return torch.float16 if capability and capability < (8, 0) else torch.bfloat16


def here() -> Place:
    """This process's place. torchrun tells it by environment variables; without torchrun there is one rank."""
    if "RANK" not in os.environ:
        os.environ.update(ALONE)
    rank = int(os.environ["RANK"])
    local_rank = int(os.environ["LOCAL_RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    local_world_size = int(os.environ["LOCAL_WORLD_SIZE"])
    device, backend = choose(torch.cuda.device_count(), local_world_size, local_rank)
    if device != "cpu":
        torch.cuda.set_device(device)  # before anything allocates, or every rank takes memory on GPU 0
    return Place(rank, local_rank, world_size, torch.device(device), backend)


def start(place: Place, seconds: float = 60) -> None:
    """Make the default process group. A rank that waits for the others longer than `seconds` stops with an error."""
    dist.init_process_group(place.backend, timeout=timedelta(seconds=seconds), device_id=place.bound)


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {os.cpu_count()} cores"


def report(name: str, place: Place, **numbers) -> None:
    """Write this rank's results: `name.json` on rank 0, `name.rankN.json` on the others, for the notebook to read."""
    machine = {"torch": torch.__version__, "device": device_name(place.device), "backend": place.backend}
    ranks = {"rank": place.rank, "world_size": place.world_size}
    path = Path(f"{name}.json" if place.rank == 0 else f"{name}.rank{place.rank}.json")
    path.write_text(json.dumps(machine | ranks | numbers))


@record
def main() -> None:
    place = here()
    # One write per line: two ranks that print piece by piece mix their lines.
    print(
        f"rank {place.rank} of {place.world_size}, local rank {place.local_rank}: {place.device}, {place.backend}\n",
        end="",
    )
    report("devices", place, local_rank=place.local_rank, process=os.getpid())


if __name__ == "__main__":
    main()
