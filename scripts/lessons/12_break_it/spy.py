"""What do the ranks of a program do? Their Python stacks, seen from outside by py-spy; ends when the ranks do.

Run:  python spy.py stuck.py        # in a second terminal, before or while stuck.py runs
"""

import argparse
import os
import shutil
import subprocess
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path

import psutil


def ranks(program: str) -> dict[int, psutil.Process]:
    """The processes that run `program` as a rank, started in this folder by this user: nobody else's."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, ValueError):  # gone meanwhile, or not ours to look at
            runs = any(Path(word).name == program for word in process.cmdline()[1:])
            if runs and process.cwd() == str(Path.cwd()) and process.uids().real == os.getuid():
                found[int(process.environ().get("RANK", "none"))] = process  # torchrun itself has no RANK
    return dict(sorted(found.items()))


def stack(process: psutil.Process) -> tuple[str, ...]:
    """The calls in which its main thread stands, the innermost first, as `name (file:line)`; or why they are unseen."""
    done = subprocess.run(["py-spy", "dump", "--pid", str(process.pid)], capture_output=True, text=True, timeout=20)
    if done.returncode:
        return (f"py-spy may not look into process {process.pid} here: {' '.join(done.stderr.split())[:120]}",)
    main = done.stdout.partition('"MainThread"')[2].partition("\nThread")[0]
    return tuple(line.strip() for line in main.splitlines()[1:] if line.startswith(" "))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="name of its file")
    parser.add_argument("--limit", type=float, default=90, help="seconds")
    args, end = parser.parse_args(), time.monotonic()
    end += args.limit
    if not shutil.which("py-spy"):
        print("py-spy is not installed here: `pip install py-spy` brings it.")
        return
    seen: dict[int, Counter] = defaultdict(Counter)
    while time.monotonic() < end and ((now := ranks(args.program)) or not seen):
        for rank, process in now.items():
            seen[rank][stack(process)] += 1
        time.sleep(0.4)
    for rank, stacks in sorted(seen.items()):
        calls, times = stacks.most_common(1)[0]  # a rank that hangs shows the same stack each time
        print(f"rank {rank}, {times} of {stacks.total()} looks:", *calls, sep="\n    ")


if __name__ == "__main__":
    main()
