"""Resume a training in the middle, each time without one part of its state. What does each part do?

Run:  python forget.py                                              # one process
      torchrun --standalone --nproc-per-node=2 forget.py            # two ranks
"""

import argparse
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from checkpoint import load, place_of, save
from devices import here, report
from learner import Training

STOP, AFTER = 28, 12  # steps before the stop, eight of them in the second epoch, and steps after it
PARTS = ["nothing", "model", "optimizer", "scheduler", "epoch", "step", "random numbers", "rank 1's random numbers"]


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=60)
    args, place = parser.parse_args(), here()
    dist.init_process_group(place.backend, timeout=timedelta(seconds=args.timeout))
    folder = Path("forget")
    folder.mkdir(exist_ok=True)
    own, first = (place_of(folder, STOP, rank, place.world_size) for rank in (place.rank, 0))

    whole = Training(place, args.epochs)
    for done in whole.steps():
        if done == STOP:
            save(whole.state(), own)
    dist.all_reduce(torch.zeros(1, device=place.device))  # rank 0's file is there before another rank reads it

    curves = {}
    for part in PARTS:
        training = Training(place, args.epochs)  # as new as in a new process
        fresh, state = training.state(), load(own, place.device)
        if part == "rank 1's random numbers":
            state["random"] = load(first)["random"]  # only rank 0's were saved, and all take those
        elif part != "nothing":
            name = {"random numbers": "random"}.get(part, part)
            state[name] = fresh[name]
        training.restore(state)
        for done in training.steps():
            if done == STOP + AFTER:
                break
        curves[part] = training.losses
        gap = max(abs(a - b) for a, b in zip(training.losses, whole.losses, strict=False))
        if place.rank == 0:
            print(f"forgot {part + ':':25} losses differ by {gap:.1e}" if gap else f"forgot {part + ':':25} same bits")
    report("forget", place, losses=whole.losses, curves=curves, stop=STOP)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
