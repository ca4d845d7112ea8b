"""One change at a time: each is measured beside the program without it, and kept only if it pays.

Run:  python tune.py
      torchrun --standalone --nproc-per-node=2 tune.py --rounds 5
"""

import argparse
import time
from datetime import timedelta
from statistics import median

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from budget import Training, budget
from devices import Place, here, report

CHANGES = ["whole batches", "channels last", "fused", "bucket view", "own statistics"]


def seconds(training: Training, steps: int, talk: bool = True) -> float:
    """Seconds of a step, on the slower rank."""
    start = time.perf_counter()
    for _ in range(steps):
        training.step(talk, laps=False)  # on a GPU Python may run ahead, as in a real training
    if training.place.device.type == "cuda":
        torch.cuda.synchronize()
    slower = torch.tensor((time.perf_counter() - start) / steps, device=training.place.device)
    dist.all_reduce(slower, dist.ReduceOp.MAX)  # so all ranks know the same number, and decide alike
    return slower.item()


def compare(before: Training, after: Training, rounds: int, steps: int) -> list[float]:
    """Time after / time before, round by round: what else this machine does slows both sides alike."""
    ratios = []
    for n in range(rounds + 1):
        first, second = (before, after) if n % 2 else (after, before)
        took = {id(side): seconds(side, steps) for side in (first, second)}
        if n:  # the first round warms up
            ratios.append(took[id(after)] / took[id(before)])
    return ratios


def talk(training: Training, rounds: int, steps: int) -> list[float]:
    """Pace of two ranks that talk / of two that never do, round by round."""
    ratios = []
    for _ in range(rounds):
        training.step(talk=False)
        silent = seconds(training, steps, talk=False)
        training.step()
        ratios.append(silent / seconds(training, steps))
    return ratios


def training(options: set[str], batch_size: int, place: Place) -> Training:
    """A training that has found its pace: DDP puts its buckets in order after the first step."""
    ready = Training(options, batch_size, place)
    for _ in range(2):
        ready.step()
    return ready


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=64, help="pictures a rank")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2, help="steps of each side in a round")
    parser.add_argument("--timeout", type=float, default=60)
    args, place = parser.parse_args(), here()
    dist.init_process_group(place.backend, timeout=timedelta(seconds=args.timeout))

    textbook = best = training(set(), args.batch_size, place)
    first, rows = budget(textbook, 2 * args.steps), []
    for change in CHANGES:
        tried = training(best.options | {change}, args.batch_size, place)
        ratios = compare(best, tried, args.rounds, args.steps)
        rows.append({"change": change, "ratios": ratios, "kept": median(ratios) < 0.98})
        if place.rank == 0:
            kept = "kept" if rows[-1]["kept"] else "left out"
            print(f"{change:15} {median(ratios):5.2f} of the time  ({min(ratios):.2f} – {max(ratios):.2f})  {kept}")
        best = tried if rows[-1]["kept"] else best
    whole = compare(textbook, best, args.rounds, args.steps)
    silent = talk(best, args.rounds, args.steps)
    last = budget(best, 2 * args.steps)
    if place.rank == 0:
        print(f"all in all      {median(whole):5.2f} of the time, {median(silent):.2f} of the pace without talking")
    report("tune", place, first=first, last=last, rows=rows, whole=whole, silent=silent, options=sorted(best.options))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
