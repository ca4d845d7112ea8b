"""Which machine measures here, how much it can do at once, and whether it has something else to do.

Run:  python -m course.machine   # how many times as far as one two processes come: calm from 1.9 on
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
from tqdm import tqdm

SECONDS = 2.0  # for one spinner, and then for two
CALM = 1.9  # two spinners come at least so many times as far as one where nobody else computes
PAUSE = 4.0  # seconds from one look to the next
PATIENCE = 600.0  # seconds
LAUNCH = 2.5e9  # bytes that a notebook takes while two ranks run
# The devices that a driver for GPUs makes: NVIDIA's, AMD's, Windows' own.
GPUS = ("nvidia[0-9]*", "nvidiactl", "kfd", "dxg")


def processor() -> str:
    """The processor's name, as "AMD EPYC 7B13"; "" where the system does not tell."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else ""


def free_memory(groups: Path = Path("/sys/fs/cgroup")) -> float:
    """How many bytes are free, for this container where it has less than the machine."""
    free = float(psutil.virtual_memory().available)
    with suppress(OSError, ValueError):  # no container, or one without a limit: "max"
        limit = int((groups / "memory.max").read_text())
        used = int((groups / "memory.current").read_text())
        free = min(free, limit - used)
    return free


def side_by_side() -> int:
    """How many notebooks may run at once: one a core, if memory allows it; one in any case."""
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    return max(1, min(cores, int(free_memory() / LAUNCH)))


def why_plain(devices: Path = Path("/dev")) -> str:
    """Why launches must not be forked on this machine: see course.forked. "" if they may.

    It looks for GPUs without torch, which takes seconds to import.
    """
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return "forked launches need Linux"
    if any(list(devices.glob(name)) for name in GPUS):
        return "forked launches were not tried beside a GPU"
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:  # an old kernel, or a sandbox
        return f"forked launches need pidfd_open ({error.strerror})"
    return ""


def spin(seconds: float) -> int:
    """How far one process counts in this time."""
    end = time.perf_counter() + seconds
    count = 0
    while time.perf_counter() < end:
        count += 1
    return count


def spinners(number: int, environment: dict[str, str]) -> int:
    """How far so many processes count side by side, all together."""
    command = [sys.executable, "-P", __file__, "--spin", str(SECONDS)]
    processes = []
    for _ in range(number):
        process = subprocess.Popen(
            command,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # Ctrl-C reaches them, too, and they need not say so
        )
        processes.append(process)
    counts = [process.communicate()[0] for process in processes]
    return sum(int(count or 0) for count in counts)  # nothing from one that was ended


def speedup(environment: dict[str, str]) -> float:
    """How many times as far as one process two come side by side, started with these variables."""
    alone = spinners(1, environment)
    together = spinners(2, environment)
    return together / max(1, alone)


def wait_until_calm(
    what: str,
    measure: Callable[[], float],
    stopped: threading.Event,
    patience: float = PATIENCE,
    pause: float = PAUSE,
    tell: Callable[[str], object] = tqdm.write,
) -> bool:
    """Wait, before `what` measures times, until this machine has nothing else to do.

    Returns whether it became so in time. Tells what it waits for, and breaks off when `stopped` is
    set. A machine with one core cannot be asked so, and counts as calm.
    """
    if (os.cpu_count() or 1) < 2:
        return True
    deadline = time.monotonic() + patience
    while True:
        times = measure()
        if times >= CALM:
            return True
        state = f"two processes come {times:.2f} × as far as one, {CALM:g} × is calm"
        if time.monotonic() + pause > deadline:
            tell(f"{what}: this machine is still busy ({state}), and measures all the same")
            return False
        tell(f"{what}: waits for a calm machine ({state}), looks again in {pause:g} s")
        if stopped.wait(pause):
            return False


if __name__ == "__main__":
    if sys.argv[1:2] == ["--spin"]:
        print(spin(float(sys.argv[2])))
    else:
        print(f"{processor()}: {speedup({}):.2f} ×, {CALM:g} × or more is calm")
