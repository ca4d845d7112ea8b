"""What the ranks of a running training export, and what their devices are doing.

Run:  python watch.py            # looks at itself
"""

import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil
from prometheus_client.parser import text_string_to_metric_families
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report

# Straight to this machine, even where other addresses are reached by way of a proxy.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Usage(NamedTuple):
    who: str  # a GPU, or a rank's process
    busy: float  # % of the time since the last look
    memory: float  # GB in use
    room: float  # GB there are
    celsius: int | None
    watts: float | None


def targets(ranks: int, patience: float = 60) -> list[dict]:
    """What each rank has written about where it exports; TimeoutError if one does not write."""
    paths = [Path(f"target-{rank}.json") for rank in range(ranks)]
    end = time.monotonic() + patience
    while not all(path.exists() for path in paths):
        if time.monotonic() > end:
            raise TimeoutError(f"no ranks here after {patience:.0f} s: look at what they printed")
        time.sleep(0.1)
    found = []
    for path in paths:
        found += json.loads(path.read_text())
    return found


def page(target: dict) -> str:
    """Everything that a rank exports, as text."""
    address = target["targets"][0]
    with opener.open(f"http://{address}/metrics", timeout=10) as answer:
        return answer.read().decode()


def scrape(target: dict) -> dict[str, float]:
    """A rank's counters: its steps, and the seconds that it has spent on each part of them."""
    numbers = {}
    for family in text_string_to_metric_families(page(target)):
        for sample in family.samples:
            if sample.name == "train_steps_total":
                numbers["steps"] = sample.value
            if sample.name == "train_seconds_total":
                numbers[sample.labels["part"]] = sample.value
    return numbers


class Watch:
    """Looks at the GPUs by NVML, or, where none answers, at the ranks' processes by psutil."""

    def __init__(self, found: list[dict]):
        self.processes = {}
        for target in found:
            labels = target["labels"]
            name = f"rank {labels['rank']}"
            self.processes[name] = psutil.Process(int(labels["process"]))
        try:
            import pynvml  # of the package nvidia-ml-py

            pynvml.nvmlInit()
            self.nvml = pynvml
            self.by_gpu = len(self.gpus()) > 0
        except Exception:  # no such package, no driver, or a GPU that does not say how busy it is
            self.by_gpu = False
        self.look()  # from here on "busy" is counted

    def look(self) -> list[Usage]:
        return self.gpus() if self.by_gpu else self.ranks()

    def ranks(self) -> list[Usage]:
        room = psutil.virtual_memory().total / 1e9
        found = []
        for name, process in self.processes.items():
            memory = process.memory_info().rss / 1e9
            found.append(Usage(name, process.cpu_percent(), memory, room, None, None))
        return found

    def answer(self, ask: Callable[..., int], *about: object) -> int | None:
        """What NVML answers; None where this GPU does not say, as many laptops' and their power."""
        try:
            return ask(*about)
        except self.nvml.NVMLError:
            return None

    def gpus(self) -> list[Usage]:
        found = []
        for number in range(self.nvml.nvmlDeviceGetCount()):
            gpu = self.nvml.nvmlDeviceGetHandleByIndex(number)
            memory = self.nvml.nvmlDeviceGetMemoryInfo(gpu)
            busy = self.nvml.nvmlDeviceGetUtilizationRates(gpu).gpu
            core = self.nvml.NVML_TEMPERATURE_GPU
            celsius = self.answer(self.nvml.nvmlDeviceGetTemperature, gpu, core)
            milliwatts = self.answer(self.nvml.nvmlDeviceGetPowerUsage, gpu)
            watts = None if milliwatts is None else milliwatts / 1000
            sizes = (memory.used / 1e9, memory.total / 1e9)
            found.append(Usage(f"GPU {number}", busy, *sizes, celsius, watts))
        return found


@record
def main() -> None:
    own = {"labels": {"rank": "0", "process": str(psutil.Process().pid)}}
    watch = Watch([own])
    sum(number * number for number in range(10**6))
    usage = watch.look()
    print(*usage, sep="\n")
    report("watch", here(), usage=usage)


if __name__ == "__main__":
    main()
