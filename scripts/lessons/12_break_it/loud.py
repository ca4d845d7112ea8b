"""Faults that say something, and one crash that does not. Each is committed once.

Run:  torchrun --standalone --nproc-per-node=2 loud.py
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from devices import here, report, start

# A program of its own, since it crashes: DDP on gloo under the debug level DETAIL.
DETAIL = """import torch
import torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
ddp_model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
ddp_model(torch.ones(1, 1)).backward()"""
# In a small room for shared memory, which only this command sees: `load` below.
SMALL = "mount -t tmpfs -o size=1m tmpfs /dev/shm && exec {python} -c 'import loud; loud.load()'"


def complaint(deed: Callable[[], object]) -> str:
    """The error that a deed raises, as `Kind: message`, and after it the one behind it.

    Empty if there is none.
    """
    try:
        deed()
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        if error.__cause__:
            message += f"\n{type(error.__cause__).__name__}: {error.__cause__}"
        return message
    return ""


class Pictures(Dataset):
    """64 pictures of 256 kB. Asked for number 7, the worker process gets `number` as a signal.

    In a real training the system would send it.
    """

    def __init__(self, number: int = 0) -> None:
        self.number = number

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 7 and self.number:
            os.kill(os.getpid(), self.number)
        return torch.zeros(256, 256)


def load(number: int = 0) -> None:
    """Let a worker process load all pictures; it gets this signal on the way, if any."""
    for _ in DataLoader(Pictures(number), batch_size=8, num_workers=1):
        pass


def edit() -> None:
    """An optimizer steps between forward and backward, which needs the weights as they were."""
    ddp_model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)))
    optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.1)
    x = torch.ones(2, 4)
    ddp_model(x).sum().backward()
    loss = ddp_model(x).sum()
    optimizer.step()
    loss.backward()


def port() -> None:
    """Two programs want to be rank 0 on the same port of one machine."""
    with socket.create_server(("", 0)) as other:
        number = other.getsockname()[1]
        patience = timedelta(seconds=2)
        dist.TCPStore("127.0.0.1", number, is_master=True, timeout=patience)


def child(command: list[str], **settings: str) -> str:
    """How another process ended, and the last line of what it said."""
    env = os.environ | settings
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    lines = done.stderr.strip().splitlines() or [""]
    return f"exit code {done.returncode} {lines[-1]}".strip()


@record
def main() -> None:
    early = complaint(dist.get_rank)  # asked for its rank before there is a process group
    # gloo on the CPU everywhere: so the messages read the same with and without GPUs.
    place = here(gpus=0)
    start(place)
    messages = {"early": early, "edit": complaint(edit)}
    if place.rank == 0:
        messages["port"] = complaint(port)
        messages["killed"] = complaint(lambda: load(signal.SIGKILL))
        messages["bus"] = complaint(lambda: load(signal.SIGBUS))
        script = SMALL.format(python=sys.executable)
        messages["small"] = child(["unshare", "-rm", "sh", "-c", script])
        detail = [sys.executable, "-c", DETAIL]
        messages["detail"] = child(detail, TORCH_DISTRIBUTED_DEBUG="DETAIL")
    dist.barrier()
    report("loud", place, told=messages)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
