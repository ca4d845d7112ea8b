"""Faults that say something, and one crash that does not. Each is committed once, and its message kept.

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

from devices import here, report

DETAIL = """import torch, torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))(torch.ones(1, 1)).backward()"""
SMALL = "mount -t tmpfs -o size=1m tmpfs /dev/shm && exec {python} -c 'import loud; loud.load()'"


def said(deed: Callable[[], object]) -> str:
    """The error that a deed raises, as `Kind: message`, and after it the one behind it; empty if none."""
    try:
        deed()
    except Exception as error:
        return "\n".join(f"{type(each).__name__}: {each}" for each in (error, error.__cause__) if each)
    return ""


class Pictures(Dataset):
    """64 pictures of 256 kB. Asked for number 7, the worker process gets `number` as a signal: a stand-in for fate."""

    def __init__(self, number: int = 0) -> None:
        self.number = number

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 7 and self.number:
            os.kill(os.getpid(), self.number)
        return torch.zeros(256, 256)


def load(number: int = 0) -> None:
    for _ in DataLoader(Pictures(number), batch_size=8, num_workers=1):
        pass


def edit() -> None:
    """An optimizer steps between forward and backward: the weights that backward needs are no longer there."""
    ddp_model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)))
    optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.1)
    ddp_model(torch.ones(2, 4)).sum().backward()
    loss = ddp_model(torch.ones(2, 4)).sum()
    optimizer.step()
    loss.backward()


def port() -> None:
    """Two programs want to be rank 0 on the same port of one machine."""
    with socket.create_server(("", 0)) as other:
        dist.TCPStore("127.0.0.1", other.getsockname()[1], is_master=True, timeout=timedelta(seconds=2))


def child(command: list[str], **settings: str) -> str:
    """How another process ended, and the last line of what it said."""
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, timeout=60)
    return f"exit code {done.returncode} {(done.stderr.strip().splitlines() or [''])[-1]}".strip()


@record
def main() -> None:
    early, place = said(dist.get_rank), here()  # asked for its rank before there is a process group
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    told = {"early": early, "edit": said(edit)}
    if place.rank == 0:
        told |= {
            "port": said(port),
            "killed": said(lambda: load(signal.SIGKILL)),
            "bus": said(lambda: load(signal.SIGBUS)),
        }
        told["small"] = child(["unshare", "-rm", "sh", "-c", SMALL.format(python=sys.executable)])
        told["detail"] = child([sys.executable, "-c", DETAIL], TORCH_DISTRIBUTED_DEBUG="DETAIL")
    dist.barrier()
    report("loud", place, told=told)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
