"""Who am I, and where do I compute? The course's device policy, in one place.

Run:  python devices.py                                              # one process
      torchrun --standalone --nproc-per-node=2 devices.py            # two ranks
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

import torch
from torch.distributed.elastic.multiprocessing.errors import record


class Place(NamedTuple):
    rank: int  # number of this process among all
    local_rank: int  # number of this process on this machine
    world_size: int  # how many processes there are in all
    device: torch.device
    backend: str  # the library that carries messages between the ranks


def choose(gpus: int, local_world_size: int, local_rank: int) -> tuple[str, str]:
    """Device and backend of one rank, as ("cuda:1", "nccl"), from the numbers of GPUs and ranks on its machine."""
    if gpus >= local_world_size:
        return f"cuda:{local_rank}", "nccl"
    if gpus > 0:  # fewer GPUs than ranks: they share, over gloo, since nccl refuses two ranks on one GPU
        return f"cuda:{local_rank % gpus}", "gloo"
    return "cpu", "gloo"


def low_precision(capability: tuple[int, int] | None) -> torch.dtype:
    """The 16-bit type for a GPU of this compute capability (None: a CPU). A T4 is (7, 5), without bf16 units."""
    return torch.float16 if capability and capability < (8, 0) else torch.bfloat16


def here() -> Place:
    """This process's place. torchrun tells it by environment variables; without torchrun there is one rank."""
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    alone |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    if "RANK" not in os.environ:
        os.environ.update(alone)
    rank, local_rank, world_size, local_world_size = (int(os.environ[name]) for name in list(alone)[:4])
    device, backend = choose(torch.cuda.device_count(), local_world_size, local_rank)
    if device != "cpu":
        torch.cuda.set_device(device)  # before anything allocates, or every rank takes memory on GPU 0
    return Place(rank, local_rank, world_size, torch.device(device), backend)


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
