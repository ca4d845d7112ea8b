"""Kill a rank of lesson 21's backend at a random moment, many times. What becomes of the others?

Run:  python tests/campaigns/kills.py               # 200 kills
      python tests/campaigns/kills.py --kills 20 --seed 3

Two to four ranks are forked; they meet, and add up tensors of random sizes. One of them is killed,
while they meet or later. Each of the others must get an error within the limit. Afterwards there is
no process of ours, no new file in /dev/shm, and no sum was wrong.

They meet in a store whose server is a process that nobody kills. A FileStore would not do: it
counts its limit in whole seconds, so that 1 s lasts 2, and a rank that is killed while it writes
leaves half an entry, at which all others read without end. The server is not this process, either:
it has threads, and a rank that is forked while one of them holds a lock may wait for it for ever.
"""

import argparse
import faulthandler
import importlib
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import NamedTuple

import by_hand  # noqa: F401

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # a store that waits in vain warns each time

import torch
import torch.distributed as dist

from course.measure.backend import build

HEARD = 5  # exit code of a rank that got an error
WRONG = 6  # of one whose sum was wrong, or who was told that the ranks disagree
SLACK = 3.0  # seconds more than the limit, for a machine that is busy
SHARED = Path("/dev/shm")


class Room(NamedTuple):
    """Where the ranks of one kill meet."""

    port: int  # of the store's server
    number: int  # of the kill: a part of the store that is theirs


def play(nearby: ModuleType, room: Room, rank: int, ranks: int, limit: float, seed: int) -> None:
    """A rank, until it hears that another one is lost."""
    faulthandler.dump_traceback_later(limit + SLACK / 2)  # where it is, should it never hear
    torch.set_num_threads(1)
    wait = timedelta(seconds=limit)
    chance = random.Random(seed)  # the same sizes on every rank
    try:
        server = dist.TCPStore("127.0.0.1", room.port, timeout=wait)
        store = dist.PrefixStore(str(room.number), server)
        backend = nearby.create(store, rank, ranks, wait)
        while True:
            numbers = torch.full((chance.choice([1, 1000, 200_000, 700_000]),), float(rank + 1))
            backend.allreduce([numbers])
            if not bool((numbers == ranks * (ranks + 1) / 2).all()):
                os._exit(WRONG)
    except RuntimeError as error:
        # Nobody ever makes another call than the others, whoever is killed.
        os._exit(WRONG if " makes call " in str(error) else HEARD)


def one_kill(nearby: ModuleType, room: Room, limit: float, seed: int) -> list[float]:
    """Seconds from the kill until each other rank had ended; RuntimeError if one did not hear."""
    chance = random.Random(seed)
    ranks = chance.choice([2, 2, 3, 4])
    children = {}
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            play(nearby, room, rank, ranks, limit, seed)
        children[child] = rank
    time.sleep(chance.uniform(0, 0.3))
    victim = chance.choice(list(children))
    os.kill(victim, signal.SIGKILL)
    began = time.monotonic()
    seconds = []
    problems = []
    waiting = set(children)
    while waiting and time.monotonic() - began < limit + SLACK:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child == 0:
            time.sleep(0.002)
            continue
        waiting.discard(child)
        code = os.waitstatus_to_exitcode(status)
        if child != victim:
            seconds.append(time.monotonic() - began)
            if code != HEARD:
                problems.append(f"rank {children[child]} ended with {code}")
    for child in waiting:
        problems.append(f"rank {children[child]} did not end in {limit + SLACK:g} s")
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if problems:
        raise RuntimeError(f"seed {seed}, {ranks} ranks: {'; '.join(problems)}")
    return seconds


@contextmanager
def serving() -> Iterator[int]:
    """The port of a store, whose server ends with this block."""
    ours, theirs = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
            os.write(theirs, str(server.port).encode())
            while os.getppid() == parent:
                time.sleep(0.1)
        finally:
            os._exit(1)
    os.close(theirs)
    try:
        yield int(os.read(ours, 100))
    finally:
        os.close(ours)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def files() -> set[str]:
    return {path.name for path in SHARED.iterdir()} if SHARED.is_dir() else set()


def holders() -> list[str]:
    """The processes that still hold memory of ours, whoever started them."""
    found = []
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            if "memfd:nearby" in maps.read_text():
                found.append(maps.parent.name)
        except OSError:  # it has ended, or belongs to somebody else
            continue
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--limit", type=float, default=1.0, help="seconds a rank waits")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    library = build("nearby")
    if library is None:
        print("there is no g++ here, so there is nothing to kill")
        return 1
    sys.path.insert(0, str(library.parent))
    nearby = importlib.import_module("nearby")  # once, ahead of all ranks: it takes a while
    before = files()
    held = set(holders())  # by others, such as a notebook that runs beside us
    seconds = []
    failed = []
    with serving() as port:
        for number in range(args.kills):
            try:
                seed = 1000 * args.seed + number
                seconds += one_kill(nearby, Room(port, number), args.limit, seed)
            except RuntimeError as error:
                failed.append(str(error))
                print(error, flush=True)
    left = sorted(name for name in files() - before if "nearby" in name or "shared" in name)
    still = sorted(set(holders()) - held)
    late = sum(each > args.limit + 0.2 for each in seconds)
    print(f"{args.kills} kills: {len(seconds)} ranks heard of it, {len(failed)} failed")
    if seconds:
        span = f"median {median(seconds):.2f} s, at most {max(seconds):.2f} s"
        print(f"limit {args.limit:g} s: {span}; {late} later than {args.limit + 0.2:.1f} s")
    print(f"left in /dev/shm: {left}; processes that hold our memory: {still}")
    return 1 if failed or left or still else 0


if __name__ == "__main__":
    sys.exit(main())
