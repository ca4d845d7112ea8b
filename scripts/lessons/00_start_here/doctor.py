"""What is this machine, what will two ranks run on, what is missing? Every ✗ comes with its remedy.

Run:  python doctor.py
"""

import os
import platform
import shutil
import threading
from contextlib import suppress
from importlib import metadata
from typing import NamedTuple
from urllib.request import Request, urlopen

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from cifar10 import find
from devices import choose, here, report

GB = 1024**3
HOST = "www.cs.toronto.edu"  # from there lesson 03 fetches CIFAR-10

# What to do where something is missing.
SECOND = "On Kaggle: Settings → Accelerator → GPU T4 x2. Elsewhere two ranks share the"
PICTURES = "On Kaggle: Add Input → pankrzysiu/cifar10-python. Or train on made pictures."
NEWER = "On Kaggle: the latest environment. Elsewhere: pip install --upgrade torch torchvision."
CUDA = "Install a torch that is built for CUDA, or a newer driver."


class Row(NamedTuple):
    name: str
    value: str
    fine: bool = True
    remedy: str = ""  # none: this row is not judged, it only tells


def installed(package: str) -> str:
    """Version of a package, or "none"."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


def gpu_name(gpu: int) -> str:
    card = torch.cuda.get_device_properties(gpu)
    memory = f"{card.total_memory / GB:.1f} GB"
    return f"{card.name}, {memory}, compute capability {card.major}.{card.minor}"


def adds(gpu: int) -> bool:
    """Whether this GPU computes: to be counted is not enough."""
    with suppress(RuntimeError):
        ones = torch.ones(8, device=f"cuda:{gpu}")
        return (ones + 1).sum().item() == 16
    return False


def online(seconds: float = 2) -> bool:
    """Whether HOST answers in time. A thread asks, since looking up a name knows no time limit."""
    answered = threading.Event()

    def ask() -> None:
        with suppress(Exception):  # no name, no route, no answer: all mean no
            urlopen(Request(f"https://{HOST}/", method="HEAD"), timeout=seconds).close()
            answered.set()

    threading.Thread(target=ask, daemon=True).start()
    return answered.wait(seconds)


def machine() -> dict:
    """The facts, unjudged. Sizes in GB."""
    gpus = range(torch.cuda.device_count())
    nccl = torch.cuda.nccl.version() if dist.is_nccl_available() else ["none"]
    pictures = find()
    facts = {package: installed(package) for package in ("torch", "torchvision", "triton")}
    return facts | {
        "python": platform.python_version(),
        "nccl": ".".join(map(str, nccl)),
        "gpus": [gpu_name(gpu) for gpu in gpus],
        "adds": [adds(gpu) for gpu in gpus],
        "driver": shutil.which("nvidia-smi") is not None,
        "cores": os.cpu_count() or 1,
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GB,
        "disk": shutil.disk_usage(".").free / GB,
        "pictures": str(pictures or ""),
        "data": "CIFAR-10" if pictures else "none",
        "online": online(),
        "kaggle": os.environ.get("KAGGLE_KERNEL_RUN_TYPE", "no"),
    }


def at_least(version: str, oldest: tuple[int, int]) -> bool:
    """Whether a version such as "2.10.0+cu128", here (2, 10), is `oldest` or a newer one."""
    major, minor = version.split(".")[:2]
    return (int(major), int(minor)) >= oldest


def judge(facts: dict) -> list[Row]:
    """The table: what was seen, whether it will do, and the remedy if not."""
    gpus = facts["gpus"]
    memory = facts["memory"]
    python = at_least(facts["python"], (3, 11))
    triton = facts["triton"] != "none" or not gpus  # only GPUs use it
    nccl = facts["nccl"] != "none" or len(gpus) < 2
    unseen = facts["driver"] and not gpus  # torch cannot use what the driver is for
    sharing = f"{SECOND} {'GPU' if gpus else 'CPU'}."
    cards = []
    for n, gpu in enumerate(gpus):
        cards.append(Row(f"GPU {n}", gpu, facts["adds"][n], f"Counted, but cannot add. {CUDA}"))
    first, backend = choose(len(gpus), 2, 0)
    second, _ = choose(len(gpus), 2, 1)
    data = bool(facts["pictures"] or facts["online"])  # with one of them, the other is not missed
    internet = "yes" if facts["online"] else f"no ({HOST})"
    return [
        Row("Python", facts["python"], python, "Use Python 3.11 to 3.13."),
        Row("torch", facts["torch"], at_least(facts["torch"], (2, 10)), NEWER),
        Row("torchvision", facts["torchvision"], facts["torchvision"] != "none", NEWER),
        Row("Triton", facts["triton"], triton, "pip install triton: lesson 07 uses it."),
        Row("nccl", facts["nccl"], nccl, CUDA),
        Row("GPUs", str(len(gpus)), len(gpus) > 1, CUDA if unseen else sharing),
        *cards,
        Row("two ranks", f"{first} and {second}, {backend}: untried, pulse.py tries it"),
        Row("CPU cores", str(facts["cores"])),
        Row("memory", f"{memory:.1f} GB", memory > 3, "Lower TRAIN_SIZE."),
        Row("free disk", f"{facts['disk']:.1f} GB", facts["disk"] > 1, "Delete files from it."),
        Row("CIFAR-10", facts["pictures"] or "not here", data, PICTURES),
        Row("internet", internet, data, "On Kaggle: Settings → Internet on."),
        Row("on Kaggle", facts["kaggle"]),
    ]


@record
def main() -> None:
    place = here()
    facts = machine()
    rows = judge(facts)
    for row in rows:
        verdict = "✓" if row.fine else "✗"
        print(f"{verdict if row.remedy else '·'} {row.name:13}{row.value}")
        if not row.fine:
            print(f"    → {row.remedy}")
    policy = [choose(gpus, 2, 0)[1] for gpus in range(4)]  # backend of two ranks, by number of GPUs
    report("doctor", place, rows=rows, policy=policy, **facts)


if __name__ == "__main__":
    main()
