"""On what was measured: kept with each run, and in the name of its file."""

import json
import os
import platform
import re
from pathlib import Path

from course import rooms
from course.machine import processor

CPUS = Path("/proc/cpuinfo")
BF16 = ("avx512_bf16", "amx_bf16", "bf16")  # what Linux calls a CPU's units for it


def cpuinfo(field: str) -> str:
    """What Linux says of the first core; "" where it says nothing."""
    text = CPUS.read_text() if CPUS.exists() else ""
    found = re.search(rf"^{field}\s*: (.+)$", text, re.MULTILINE)
    return found[1] if found else ""


def cpu_model() -> str:
    """The CPU's family and model: processors in a cloud share a name. "6-143", or "" elsewhere."""
    numbers = [cpuinfo("cpu family"), cpuinfo("model")]
    return "-".join(filter(None, numbers))


def bf16_units() -> list[str]:
    """Which units this CPU has for bf16."""
    flags = f"{cpuinfo('flags')} {cpuinfo('Features')}".split()
    return [name for name in BF16 if name in flags]


def machine() -> dict:
    """Processor and torch."""
    import torch  # it takes long, and `--help` does not need it

    return {
        "name": processor(),
        "model": cpu_model(),
        "bf16": bf16_units(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "torch": torch.__version__,
    }


def rates() -> dict[str, object]:
    """10⁹ operations a second of all cores, or of the GPU, in fp32 and in the fastest format."""
    dtypes = rooms.load("dtypes")
    place = rooms.load("devices").here()
    size = 4096 if place.device.type == "cuda" else 1536
    best, reason = dtypes.best_dtype(dtypes.units(place.device))
    dtypes.FORMATS = {name: dtypes.FORMATS[name] for name in {"fp32", best}}
    facts = {"format": best, "reason": reason}
    for name, numbers in dtypes.multiply(size, place).items():
        facts[name] = round(2 * size**3 / min(numbers["seconds"]) / 1e9)
    return facts


def device() -> str:
    """The GPU, or the CPU with its family and model, in words."""
    devices = rooms.load("devices")
    place = devices.here()
    name = devices.device_name(place.device)
    model = cpu_model() if place.device.type == "cpu" else ""
    return f"{name}, model {model}" if model else name


def file_name(machine: dict) -> str:
    """Of a kept run: "bench-intel-xeon-processor-6-143-2-cores.json"."""
    name = re.sub(r"\((R|TM|tm)\)|@.*", "", machine["name"]) or machine["processor"]
    words = re.findall(r"[a-z0-9]+", f"{name} {machine['model']}".lower())
    return "-".join(["bench", *words, str(machine["cores"]), "cores.json"])


def write(path: Path, machine: dict, rows: list[dict]) -> None:
    """A run: what was measured on, and a line for each row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in rows)
    path.write_text(f'{{\n "machine": {json.dumps(machine)},\n "rows": [\n{lines}\n ]\n}}\n')


def read(path: Path) -> dict:
    """A run that was written; {} if there is none."""
    return json.loads(path.read_text()) if path.exists() else {}


def originals(data: Path) -> bool:
    """Whether a folder holds CIFAR-10's own files, and not the same pictures in another form."""
    from torchvision.datasets import CIFAR10  # it takes long, and few need it
    from torchvision.datasets.utils import check_integrity

    files = CIFAR10.train_list + CIFAR10.test_list
    return all(check_integrity(data / CIFAR10.base_folder / name, md5) for name, md5 in files)
