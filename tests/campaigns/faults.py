"""Kill what the course runs, at random moments; fill its disks; put rubbish in place of its files.

Nothing may be lost: see the files beside this one for what that means of a training, of a notebook,
and of a program in a room where it cannot work. Whatever is hit, ten seconds later nothing that it
started may live.

Run:  python tests/campaigns/faults.py             # all of it: more than 200 kills, `make faults`
      python tests/campaigns/faults.py --tries 1   # a look
      python tests/campaigns/faults.py --seed 7 --only "rank SIGKILL"   # how a lost try is repeated
"""

import argparse
import random
import re
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import by_hand  # noqa: F401
from faults_notebook import interrupt
from faults_processes import STAMP, demand, end, stopped
from faults_rooms import ROOMS, visit
from faults_training import Training, train
from tqdm import tqdm

from course import rooms
from course.processes import Work, guarded

SERIES = 7  # kills of one training
SIGNALS = ("SIGINT", "SIGTERM", "SIGKILL")
TARGETS = ("rank", "agent", "kernel", "run.py", "run.py --outputs")
KINDS = [f"{target} {name}" for target in TARGETS for name in SIGNALS]


class Job(NamedTuple):
    kind: str
    seed: int
    tries: int

    @property
    def trains(self) -> bool:
        """Whether a training is hit, several times."""
        return self.kind.startswith(("rank", "agent"))


def jobs(only: str, tries: int, seed: int) -> list[Job]:
    """All jobs whose kind contains `only`; a training is hit several times in one."""
    planned = [Job(kind, seed, 1) for kind in ROOMS if only in kind]
    for kind in KINDS:
        if only not in kind:
            continue
        size = SERIES if Job(kind, seed, tries).trains else 1
        for number, done in enumerate(range(0, tries, size)):
            planned.append(Job(kind, seed + number, min(size, tries - done)))
    return planned


def attempt(job: Job, work: Work, tick: Callable[[], object], whole: list[float]) -> list[str]:
    """One job: a verdict for each try, nothing or what was lost."""
    name = f"{job.kind} {job.seed}"
    chance = random.Random(name)
    mark = f"{work.mark}-{job.kind}-{job.seed}."
    folder = work.folder / re.sub(r"\W+", "-", name)
    folder.mkdir()
    if job.trains:
        return train(job.kind, chance, job.tries, folder, mark, tick, whole)
    try:
        if job.kind in ROOMS:
            visit(job.kind, folder, mark)
        else:
            hits = (interrupt(job.kind, chance, folder / str(n), mark) for n in range(5))
            demand(any(hits), "could not be hit in five runs")
        verdict = ""
    except Exception as error:
        verdict = f"{type(error).__name__}: {error}"
        end(mark)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tick()
    return [verdict]


def table(results: dict[Job, list[str]]) -> int:
    """Print tries, survived and lost for each fault; how many were lost.

    Then every loss, and how to repeat it.
    """
    verdicts_of: dict[str, list[str]] = {}
    for (kind, _, _), verdicts in results.items():
        verdicts_of.setdefault(kind, []).extend(verdicts)
    verdicts_of["all"] = [verdict for verdicts in results.values() for verdict in verdicts]
    print(f"{'fault':32}{'tries':>6}{'survived':>10}{'lost':>6}")
    for kind, verdicts in verdicts_of.items():
        lost = sum(verdict != "" for verdict in verdicts)
        print(f"{kind:32}{len(verdicts):6}{len(verdicts) - lost:10}{lost:6}")

    for (kind, seed, tries), verdicts in results.items():
        again = f'python tests/campaigns/faults.py --seed {seed} --tries {tries} --only "{kind}"'
        for number, verdict in enumerate(verdicts, 1):
            if verdict:
                print(f"\n{kind}, try {number} of {tries}: {verdict}\n    {again}")
    return lost


def campaign(planned: list[Job], work: Work) -> dict[Job, list[str]]:
    """Do all jobs, two at a time, in this order; the verdicts in the order of the table."""
    pool = ThreadPoolExecutor(2)
    try:
        whole = []
        if any(job.trains for job in planned):
            uninterrupted = Training(work.folder / "whole", f"{work.mark}-whole", random.Random())
            whole = uninterrupted.finish(pause=0)["losses"]
        with tqdm(total=sum(job.tries for job in planned)) as bar:
            tried = pool.map(lambda job: attempt(job, work, bar.update, whole), planned)
            results = dict(zip(planned, tried, strict=True))
    finally:
        stopped.set()
        work.end()
        pool.shutdown(cancel_futures=True)
    order = [*KINDS, *ROOMS]
    in_order = sorted(planned, key=lambda job: (order.index(job.kind), job.seed))
    return {job: results[job] for job in in_order}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tries", type=int, default=14, help="kills of each of the 15 kinds")
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    args = parser.parse_args()
    sys.path += map(str, rooms.rooms())  # where the judge of a training finds lesson 11's programs
    planned = jobs(args.only, args.tries, args.seed)
    random.Random(args.seed).shuffle(planned)  # trainings wait while notebooks compute
    with guarded(STAMP, "faults-") as work:
        lost = table(campaign(planned, work))
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
