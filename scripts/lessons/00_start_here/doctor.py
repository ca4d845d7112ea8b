"""What is this machine, what will two ranks run on, what is missing? Every ✗ comes with its remedy.
Run:  python doctor.py
"""

import os
import platform
import shutil
import threading
from contextlib import suppress
from importlib.metadata import distributions
from urllib.request import Request, urlopen

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from cifar10 import find
from devices import choose, here, report

GB, HOST = 1024**3, "www.cs.toronto.edu"  # from there lesson 03 fetches CIFAR-10
SECOND = "On Kaggle: Settings → Accelerator → GPU T4 x2. Elsewhere two ranks share the"
PICTURES = "On Kaggle: Add Input → pankrzysiu/cifar10-python. Or train on made pictures."
NEWER = "On Kaggle: the latest environment. Elsewhere: pip install --upgrade torch torchvision."
CUDA = "Install a torch that is built for CUDA, or a newer driver."


def online(seconds: float = 2) -> bool:
    """Whether HOST answers in time. A thread asks, since looking up a name knows no time limit."""
    heard = threading.Event()

    def ask() -> None:
        with suppress(Exception):  # no name, no route, no answer: all mean no
            urlopen(Request(f"https://{HOST}/", method="HEAD"), timeout=seconds).close()
            heard.set()

    threading.Thread(target=ask, daemon=True).start()
    return heard.wait(seconds)


def adds(gpu: int) -> bool:
    """Whether this GPU computes: to be counted is not enough."""
    with suppress(RuntimeError):
        return (torch.ones(8, device=f"cuda:{gpu}") + 1).sum().item() == 16
    return False


def machine() -> dict:
    """The facts, unjudged. Sizes in GB."""
    gpus = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
    packages = ("torch", "torchvision", "triton")
    return {name: next((each.version for each in distributions(name=name)), "none") for name in packages} | {
        "python": platform.python_version(),
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if dist.is_nccl_available() else "none",
        "gpus": [f"{g.name}, {g.total_memory / GB:.1f} GB, compute capability {g.major}.{g.minor}" for g in gpus],
        "adds": [adds(n) for n in range(len(gpus))],
        "driver": shutil.which("nvidia-smi") is not None,
        "cores": os.cpu_count() or 1,
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GB,
        "disk": shutil.disk_usage(".").free / GB,
        "pictures": str(find() or ""),
        "data": "CIFAR-10" if find() else "none",
        "online": online(),
        "kaggle": os.environ.get("KAGGLE_KERNEL_RUN_TYPE", "no"),
    }


def judge(facts: dict) -> list[tuple[str, str, bool, str]]:
    """The rows of the table: what, what was found, whether it will do, and the remedy if not."""
    python, torch_ = (tuple(map(int, facts[name].split(".")[:2])) for name in ("python", "torch"))
    gpus, data = facts["gpus"], bool(facts["pictures"] or facts["online"])
    shared = CUDA if facts["driver"] and not gpus else f"{SECOND} {'GPU' if gpus else 'CPU'}."
    (first, backend), (second, _) = (choose(len(gpus), 2, rank) for rank in range(2))
    return [
        ("Python", facts["python"], python >= (3, 11), "Use Python 3.11 to 3.13."),
        ("torch", facts["torch"], torch_ >= (2, 10), NEWER),
        ("torchvision", facts["torchvision"], facts["torchvision"] != "none", NEWER),
        ("Triton", facts["triton"], not gpus or facts["triton"] != "none", "pip install triton: lesson 07 uses it."),
        ("nccl", facts["nccl"], len(gpus) < 2 or facts["nccl"] != "none", CUDA),
        ("GPUs", str(len(gpus)), len(gpus) > 1, shared),
        *((f"GPU {n}", gpu, facts["adds"][n], f"Counted, but cannot add. {CUDA}") for n, gpu in enumerate(gpus)),
        ("two ranks", f"{first} and {second}, {backend}", True, ""),
        ("CPU cores", str(facts["cores"]), True, ""),
        ("memory", f"{facts['memory']:.1f} GB", facts["memory"] > 3, "Close other programs, lower TRAIN_SIZE."),
        ("free disk", f"{facts['disk']:.1f} GB", facts["disk"] > 1, "Delete files in this folder."),
        ("CIFAR-10", facts["pictures"] or "not here", data, PICTURES),
        ("internet", "yes" if facts["online"] else f"no ({HOST})", data, "On Kaggle: Settings → Internet on."),
        ("on Kaggle", facts["kaggle"], True, ""),
    ]


@record
def main() -> None:
    place, facts = here(), machine()
    for name, found, fine, remedy in (rows := judge(facts)):
        print(f"{'✓' if fine else '✗'} {name:13}{found}" + ("" if fine else f"\n{'':4}→ {remedy}"))
    report("doctor", place, rows=rows, policy=[choose(gpus, 2, 0)[1] for gpus in range(4)], **facts)


if __name__ == "__main__":
    main()
