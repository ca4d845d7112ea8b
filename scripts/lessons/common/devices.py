"""Who am I, and where do I compute? The course's device policy, in one place.

Run:  python devices.py                                              # one process
      torchrun --standalone --nproc-per-node=2 devices.py            # two ranks
"""

import atexit
import json
import os
import re
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist

# Imported before there is a process group, on purpose. Its functions name the group as a default
# argument; DDP and some optimizers import it later, and then it holds the group, and gloo's
# threads, until Python shuts down. A thread that drops a tensor in that moment aborts the process
# after all its work: "terminate called without an active exception" (pytorch#190489).
import torch.distributed.nn.functional
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
        """The GPU that a process group is bound to (`device_id=`): this rank's on nccl, else None.

        Bound, nccl connects the ranks as soon as the group is made. Otherwise the first collective
        connects them, in a call that no time limit ends (pytorch#88103): a rank that is missing
        there, unless it is rank 0, is waited for without end. gloo has no such step.
        """
        return self.device if self.backend == "nccl" else None


def choose(gpus: int, local_world_size: int, local_rank: int) -> tuple[str, str]:
    """Device and backend of a rank, as ("cuda:1", "nccl"), on a machine with `gpus` GPUs."""
    if gpus >= local_world_size:
        return f"cuda:{local_rank}", "nccl"
    # With fewer GPUs than ranks, these share, over gloo: nccl by default refuses two on one GPU
    # (from 2.30 on, NCCL_MULTI_RANK_GPU_ENABLE=1 allows it).
    if gpus > 0:
        return f"cuda:{local_rank % gpus}", "gloo"
    return "cpu", "gloo"


def low_precision(capability: tuple[int, int] | None) -> torch.dtype:
    """The 16-bit type for a GPU of this compute capability, such as a T4's (7, 5); None: a CPU."""
    if capability and capability < (8, 0):  # without units for bf16
        return torch.float16
    return torch.bfloat16


def here(gpus: int | None = None) -> Place:
    """This process's place, from torchrun's environment variables; without them, the only rank.

    With `gpus=0` it is on the CPU, and its backend gloo, whatever GPUs the machine has.
    """
    if "RANK" not in os.environ:
        os.environ.update(ALONE)
    if gpus is None:
        gpus = torch.cuda.device_count()
    rank = int(os.environ["RANK"])
    local_rank = int(os.environ["LOCAL_RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    local_world_size = int(os.environ["LOCAL_WORLD_SIZE"])
    device, backend = choose(gpus, local_world_size, local_rank)
    if device != "cpu":
        torch.cuda.set_device(device)  # first of all, or every rank takes memory on GPU 0
    return Place(rank, local_rank, world_size, torch.device(device), backend)


def start(place: Place, seconds: float = 60) -> None:
    """Make the default process group, in which no rank waits longer for others than `seconds`."""
    limit = timedelta(seconds=seconds)
    dist.init_process_group(place.backend, timeout=limit, device_id=place.bound)
    keep_group(dist.group.WORLD)


def keep_group(group: dist.ProcessGroup) -> None:
    """Keep a process group until Python has run its last line, however the program leaves it.

    To free a group on gloo means to wait for its threads, and these need Python's lock whenever
    they drop a tensor. If DDP's Reducer is the last to hold the group, torch 2.10 waits *with* that
    lock: a rank that has done all its work hangs. A name in Python lets the lock go before it
    waits; so here is one that outlives every model.
    """
    atexit.register([group].clear)


def device_name(device: torch.device) -> str:
    """What computes here, as "Tesla T4" or "CPU, 2 cores, AMD EPYC 7B13"."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    path = Path("/proc/cpuinfo")
    text = path.read_text() if path.exists() else ""  # only Linux has it
    model = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    processor = f", {model[1].strip()}" if model else ""
    return f"CPU, {os.cpu_count()} cores{processor}"


def report(name: str, place: Place, **numbers) -> None:
    """Write this rank's results for the notebook: `name.json` on rank 0, else `name.rankN.json`."""
    facts = {
        "torch": torch.__version__,
        "device": device_name(place.device),
        "backend": place.backend,
        "rank": place.rank,
        "world_size": place.world_size,
    }
    path = Path(f"{name}.json" if place.rank == 0 else f"{name}.rank{place.rank}.json")
    # Written aside, then renamed: a rank that is ended in between leaves no half of a file.
    part = Path(f"{path}.part")
    part.write_text(json.dumps(facts | numbers))
    part.replace(path)
    if dist.is_initialized():
        keep_group(dist.group.WORLD)  # lessons 05 and 06 make theirs without start()


@record
def main() -> None:
    place = here()
    who = f"rank {place.rank} of {place.world_size}, local rank {place.local_rank}"
    # One write for a line and its end: two ranks that print piece by piece mix their lines.
    print(f"{who}: {place.device}, {place.backend}\n", end="")
    report("devices", place, local_rank=place.local_rank, process=os.getpid())


if __name__ == "__main__":
    main()
