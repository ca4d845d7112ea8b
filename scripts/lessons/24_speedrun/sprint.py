"""Trainings that get the same number of seconds, one after another. Who makes the fewest errors?

Run:  python sprint.py --seconds 10 --ways batches+cycle batches+cycle+nothing
      torchrun --standalone --nproc-per-node=2 sprint.py --seconds 10 --ways plain@0.05:1 cycle:1
"""

import time

BEGAN = time.perf_counter()  # ahead of importing torch, which takes seconds: for --cold

import argparse
import json
from pathlib import Path

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from clocked import Clock
from devices import here, report, start
from ingredients import parse
from loader import Pictures
from sprinter import Sprint


def split(size: int | None, validation: bool) -> tuple[Pictures, Pictures]:
    """Pictures to train on, and others to test on; for validation the last tenth of the first."""
    train_set = Pictures(True, size)
    if not validation:
        return train_set, Pictures(False)
    test_set = Pictures(True, size)
    kept = len(train_set) * 9 // 10
    test_set.x = test_set.x[kept:]
    test_set.y = test_set.y[kept:]
    train_set.x = train_set.x[:kept]
    train_set.y = train_set.y[:kept]
    return train_set, test_set


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--seconds", type=float, default=10, help="of training, for each way")
    add("--ways", nargs="+", default=["plain"], help="SWITCH+SWITCH@RATE:SEED")
    add("--validation", action="store_true", help="leave the test pictures alone")
    add("--points", type=int, default=1, help="tests during a training")
    add("--train-size", type=int, help="use only the first so many pictures")
    add("--settle", type=float, default=0, help="seconds of each way ahead, which do not count")
    add("--cold", action="store_true", help="the seconds begin with the process")
    add("--lines", type=Path, help="add a line of JSON here after each training")
    args = parser.parse_args()
    ways = {text: parse(text) for text in args.ways}
    place = here()
    start(place, seconds=600)  # with compiling, one rank may be much later than another

    train_set, test_set = split(args.train_size, args.validation)
    if args.settle:
        for way in ways.values():  # each may load kernels of its own
            sprint = Sprint(way, train_set, place)
            clock = Clock(args.settle, place)
            sprint.run(clock, test_set, points=1)
    runs = []
    for text, way in ways.items():
        sprint = Sprint(way, train_set, place)
        dist.barrier()
        began = BEGAN if args.cold else None
        clock = Clock(args.seconds, place, began)
        scores = sprint.run(clock, test_set, args.points)
        run = {"way": text, "lr": way.lr, "seed": way.seed} | scores
        runs.append(run)
        if place.rank == 0:
            score = f"{run['mirrored']:.1%} right with mirror images, {run['plain']:.1%} without"
            print(f"{text}: {score}; {run['steps']} steps in {run['seconds']:.1f} s")
        if place.rank == 0 and args.lines:
            line = json.dumps(run)
            with args.lines.open("a") as lines:
                lines.write(f"{line}\n")
    pictures = len(test_set)
    report("sprint", place, runs=runs, data=train_set.source, pictures=pictures)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
