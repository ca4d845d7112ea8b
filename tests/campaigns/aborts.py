"""How often does a rank on gloo die after all its work? Before the cure, and with it.

Run:  python tests/campaigns/aborts.py                    # `make aborts`: 40 uncured, 500 cured
      python tests/campaigns/aborts.py --program first --launches 200   # by torchrun, as readers do
      python tests/campaigns/aborts.py --program curve --launches 100 --arguments=--talk

A rank that ends while gloo's threads still hold a tensor may abort: "terminate called without an
active exception". DDP and some optimizers import torch.distributed.nn.functional, whose functions
take the default process group as a default argument. Imported when there is a group already, they
keep it, and its threads, until Python shuts down. common/devices.py imports it before there is one:
destroy_process_group() then drops the last reference, and waits for the threads. Its report() also
keeps the group until `atexit`, because torch 2.10 may hang where DDP is the last to hold it.

With --program the torchrun of this Python launches a lesson's program in an empty folder. A launch
fails if it ends with an error, takes a minute, or says "terminate called".

Two ranks that import torch cost 6 s of processor time, forked ones .5 s; they end alike.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import by_hand  # noqa: F401

from course import processes, rooms
from course.measure.start import torchrun

ROOT = Path(__file__).resolve().parents[2]
OFTEN = ROOT / "tests" / "programs" / "ends_often.py"


def environment(**more: str) -> dict[str, str]:
    ours = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return os.environ | ours | {"PYTHONPATH": rooms.python_path()} | more


def often(launches: int, cured: bool) -> Counter:
    """Exit codes of the ranks of so many launches, forked from one process."""
    command = [sys.executable, OFTEN, str(launches), *(["--cured"] if cured else [])]
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, check=True)
    return Counter({int(code): ranks for code, ranks in json.loads(done.stdout).items()})


def by_torchrun(program: str, arguments: list[str], launches: int) -> Counter:
    """How the launches of a lesson's program ended, counted; what failed is shown."""
    command = [*torchrun(2), str(rooms.program(program)), *arguments]
    ends: Counter = Counter()
    with processes.guarded("COURSE_ABORTS", "aborts-") as work:
        settings = environment(**work.environment()) | {"PYTHONPATH": ""}
        place = {"cwd": work.folder, "env": settings, "text": True}
        for launch in range(1, launches + 1):
            end = "clean"
            said = ""
            try:
                done = subprocess.run(command, capture_output=True, timeout=60, **place)
                said = done.stderr
                if done.returncode or "terminate called" in said:
                    end = f"failed with {done.returncode}"
            except subprocess.TimeoutExpired:
                end = "hung"
                work.end()
            ends[end] += 1
            if end != "clean":
                print(f"launch {launch} {end}:\n{said[-3000:]}", flush=True)
            if launch % 20 == 0:
                print(f"{launch} of {launches}: {dict(ends)}", flush=True)
    return ends


def tell(what: str, codes: Counter, began: float) -> None:
    seconds = time.monotonic() - began
    aborted = codes[-6]
    ranks = codes.total()
    print(f"{what}: {aborted} of {ranks} ranks aborted; exit codes {dict(codes)}; {seconds:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launches", type=int, default=500, help="with the cure")
    parser.add_argument("--uncured", type=int, default=40, help="launches without it")
    parser.add_argument("--program", help="count launches of this one, as readers launch it")
    parser.add_argument("--arguments", nargs="*", default=[], help="the program's own")
    args = parser.parse_args()
    if args.program:
        ends = by_torchrun(args.program, args.arguments, args.launches)
        print(f"{args.program}: {dict(ends)}")
        return 1 if set(ends) != {"clean"} else 0
    began = time.monotonic()
    tell(f"{args.uncured} launches, uncured", often(args.uncured, cured=False), began)
    began = time.monotonic()
    codes = often(args.launches, cured=True)
    tell(f"{args.launches} launches, cured", codes, began)
    return 1 if set(codes) != {0} else 0


if __name__ == "__main__":
    sys.exit(main())
