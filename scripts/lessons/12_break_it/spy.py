"""What do the ranks of a program do? Their Python stacks, seen from outside by py-spy.

It ends when the ranks do.

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
    """The processes that run `program` as a rank, started in this folder by this user.

    Nobody else's, and in the order of the ranks.
    """
    running = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, ValueError):  # gone meanwhile, or not ours to look at
            names = [Path(argument).name for argument in process.cmdline()[1:]]
            if program not in names:
                continue
            same_folder = process.cwd() == str(Path.cwd())
            if same_folder and process.uids().real == os.getuid():
                environment = process.environ()
                rank = environment.get("RANK", "none")  # torchrun itself has no RANK
                running[int(rank)] = process
    return dict(sorted(running.items()))


def stack(process: psutil.Process) -> tuple[str, ...]:
    """The calls in which its main thread is, the innermost first, as `name (file:line)`.

    Or why they cannot be seen.
    """
    command = ["py-spy", "dump", "--pid", str(process.pid)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    if done.returncode:
        words = done.stderr.split()
        complaint = " ".join(words)[:120]
        return (f"py-spy may not look into process {process.pid} here: {complaint}",)
    after = done.stdout.partition('"MainThread"')[2]
    main_thread = after.partition("\nThread")[0]
    calls = []
    for line in main_thread.splitlines()[1:]:
        if line.startswith(" "):
            calls.append(line.strip())
    return tuple(calls)


def watch(program: str, limit: float) -> dict[int, Counter]:
    """How often each rank was seen with which stack, until all ranks have ended, or the time is up.

    If none runs yet, it waits for the first.
    """
    seen: dict[int, Counter] = defaultdict(Counter)
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        running = ranks(program)
        if seen and not running:
            break
        for rank, process in running.items():
            seen[rank][stack(process)] += 1
        time.sleep(0.4)
    return dict(sorted(seen.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="name of its file")
    parser.add_argument("--limit", type=float, default=90, help="seconds")
    args = parser.parse_args()
    if not shutil.which("py-spy"):
        print("py-spy is not installed here: `pip install py-spy` brings it.")
        return
    seen = watch(args.program, args.limit)
    for rank, stacks in seen.items():
        calls, times = stacks.most_common(1)[0]  # a rank that hangs shows the same stack each time
        print(f"rank {rank}, {times} of {stacks.total()} looks:", *calls, sep="\n    ")


if __name__ == "__main__":
    main()
