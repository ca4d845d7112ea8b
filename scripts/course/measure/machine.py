"""On what the bench measures: kept with each run, and in the name of its file."""

import os
import platform
import re
from pathlib import Path

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


def file_name(machine: dict) -> str:
    """Of a kept run: "bench-intel-xeon-processor-6-143-2-cores.json"."""
    name = re.sub(r"\((R|TM|tm)\)|@.*", "", machine["name"]) or machine["processor"]
    words = re.findall(r"[a-z0-9]+", f"{name} {machine['model']}".lower())
    return "-".join(["bench", *words, str(machine["cores"]), "cores.json"])
