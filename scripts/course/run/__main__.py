"""What `make run` does: run every notebook, and build the site from what they print and draw.

Run:  python -m course.run            # every lesson
      python -m course.run 03 06      # those two
      python -m course.run --plain    # torchrun starts every rank, as it does for readers

A site from the kept outputs comes first, so that there is something to open meanwhile. Ordinary
launches are forked (course.forked) where the machine allows it. Each notebook is kept in
build/executed as soon as it has ended (kept.py): an interrupted run goes on where it stopped.
"""

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import TextIO

from nbformat import NotebookNode
from tqdm import tqdm

from course.forked import forks
from course.launches import launch_of
from course.machine import LAUNCH, free_memory, side_by_side, why_plain
from course.processes import MARK, Work, guarded
from course.run.kept import Kept
from course.run.notebook import NOTEBOOKS, Run
from course.run.notebooks import choose, complain, prepare, print_table, run_all, usable

ROOT = NOTEBOOKS.parent
EXECUTED = ROOT / "build" / "executed"
LOCK = ROOT / "build" / "run.lock"
SITE = ROOT / "build" / "site" / "index.html"
BUILD_SITE = [sys.executable, "-m", "course.site"]
LIMIT = 300  # seconds that one cell may take
COMPILES = re.compile(r"!g\+\+|torch\.compile\(|cpp_extension")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = "numbers, beginnings of names, or paths; none: every lesson"
    parser.add_argument("lessons", nargs="*", help=names)
    plain = "torchrun starts every rank, as it does for readers"
    parser.add_argument("--plain", action="store_true", help=plain)
    return parser.parse_args()


def alone() -> TextIO:
    """The lock of this clone, to be held while we run; stop where another run has it."""
    LOCK.parent.mkdir(exist_ok=True)
    lock = LOCK.open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        sys.exit(f"run: another `make run` is at work here (process {lock.read()}): wait for it")
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def warn(chosen: dict[Path, NotebookNode]) -> None:
    """Say ahead of the run what this machine lacks."""
    free = free_memory()
    if free < LAUNCH:
        needs = f"a notebook takes up to {LAUNCH / 1e9:.1f}"
        print(f"run: {free / 1e9:.1f} GB of memory are free, {needs}: close other programs")
    compiling = []
    for path, notebook in chosen.items():
        if COMPILES.search("\n".join(cell.source for cell in notebook.cells)):
            compiling.append(path.stem)
    if compiling and not shutil.which("g++"):
        fail = f"{', '.join(compiling)} compile C++ and will fail"
        print(f"run: there is no g++ here, so {fail}: install it (Debian, Ubuntu: apt install g++)")


class FirstSite:
    """A site from the kept outputs, for those who want to read meanwhile."""

    def __init__(self, work: Work):
        self.work = work

    def __call__(self, stopped: threading.Event) -> None:
        if SITE.exists() or stopped.is_set():
            return
        with (self.work.folder / "site").open("w+") as log:
            env = os.environ | self.work.environment("site-")
            process = subprocess.Popen(BUILD_SITE, stdout=log, stderr=log, env=env)
            if stopped.is_set():  # whoever set it may have looked before this process was there
                self.work.end("site-")
            code = process.wait()
            log.seek(0)
            last = log.read().strip().rpartition("\n")[2]
        if code == 0:
            last = f"Open {SITE}: it shows the kept outputs until those of this run are there"
        if not stopped.is_set():
            tqdm.write(last)


def last_site(work: Work) -> int:
    """A site from what has run; an exit code."""
    env = os.environ | work.environment("site-")
    return subprocess.run([*BUILD_SITE, "--executed", EXECUTED], env=env).returncode


def launches(notebook: NotebookNode, path: Path, forked: bool) -> dict:
    """How many launches a notebook has, and how many of them are forked."""
    codes = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    number = sum(launch_of(code) is not None for code in codes)
    return {"launches": number, "forked": forks(notebook, path.stem) if forked else 0}


def way(rows: list[dict], reason: str) -> str:
    """One line on how the launches were started."""
    number = sum(row["launches"] for row in rows)
    forked = sum(row["forked"] for row in rows)
    if forked:
        return f"{forked} of {number} launches forked; `make run PLAIN=1` starts all as readers do"
    reason = f" ({reason})" if reason else ""
    return f"All {number} launches started as readers start them{reason}"


def run_course(args: argparse.Namespace, work: Work) -> int:
    """Run what is chosen and left, and build the site; an exit code."""
    chosen = choose(args.lessons)
    warn(chosen)
    reason = "PLAIN=1" if args.plain else why_plain()
    kept = Kept(EXECUTED, chosen, forked=not reason)
    left = {path: chosen[path] for path in chosen if path not in kept}
    if len(left) < len(chosen):
        there = len(chosen) - len(left)
        print(f"{there} of {len(chosen)} have run before, and are kept; {len(left)} are left")
    runs = prepare(left, work, LIMIT, forked=not reason, parameters=kept.parameters)

    def ended(run: Run) -> None:
        kept.add(run, launches(chosen[run.path], run.path, run.forked))

    try:
        run_all(runs, side_by_side(), work, ended, first=[FirstSite(work)])
        print_table(runs)
        code = last_site(work)
    except SystemExit:
        done = f"{len(kept.rows)} of {len(kept.asked)} have run"
        print(f"\nrun: interrupted; {done}, and the next `make run` does what is left")
        raise
    failed = any(run.problem for run in runs)
    if code == 0 and not failed:
        kept.finish()
    print(way(kept.of(chosen), reason))
    return code or int(failed)


def main() -> int:
    args = arguments()
    usable(EXECUTED)
    with guarded(MARK, "course-") as work:
        try:
            with alone():
                return run_course(args, work)
        except OSError as error:
            complain(error, EXECUTED)
            return 1


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    sys.exit(main())
