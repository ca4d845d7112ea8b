"""One change at a time: each is measured beside the program without it, and kept only if it pays.

Run:  python tune.py
      torchrun --standalone --nproc-per-node=2 tune.py --rounds 5
"""

import argparse
from statistics import median

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from budget import Training, budget
from devices import Place, here, report, start
from stopwatch import in_turns, seconds, slowest

CHANGES = ["whole batches", "channels last", "fused", "bucket view", "own statistics"]


def training(options: set[str], batch_size: int, place: Place) -> Training:
    """A training that has found its pace: DDP puts its buckets in order after the first step."""
    ready = Training(options, batch_size, place)
    for _ in range(2):
        ready.step()
    return ready


def several(training: Training, steps: int, talk: bool = True) -> None:
    """Some steps, without laps: on a GPU Python may run ahead, as in a real training."""
    for _ in range(steps):
        training.step(talk, laps=False)


def compare(before: Training, after: Training, rounds: int, steps: int) -> list[float]:
    """Time after / time before, round by round: what else this machine does slows both alike."""
    ways = {
        "before": lambda: several(before, steps),
        "after": lambda: several(after, steps),
    }
    device = before.place.device
    times = in_turns(ways, rounds, device, before=dist.barrier)
    ratios = []
    for old, new in zip(times["before"], times["after"], strict=True):
        # The slower rank counts. So all ranks know the same number, and decide alike.
        ratio = slowest(new, device) / slowest(old, device)
        ratios.append(ratio)
    return ratios


def talk(training: Training, rounds: int, steps: int) -> list[float]:
    """Pace of two ranks that talk / of two that never do, round by round."""
    device = training.place.device
    ratios = []
    for _ in range(rounds):
        training.step(talk=False)  # whether buffers are sent is decided one step ahead
        silent = seconds(lambda: several(training, steps, talk=False), device)
        training.step()
        talking = seconds(lambda: several(training, steps), device)
        ratio = slowest(silent, device) / slowest(talking, device)
        ratios.append(ratio)
    return ratios


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=64, help="pictures a rank")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2, help="steps of each side in a round")
    args = parser.parse_args()
    start(place)

    # The textbook's step, and its budget.
    textbook = training(set(), args.batch_size, place)
    first = budget(textbook, 2 * args.steps)

    # One change after the other, each on top of those that were kept.
    best = textbook
    rows = []
    for change in CHANGES:
        changed = training(best.options | {change}, args.batch_size, place)
        ratios = compare(best, changed, args.rounds, args.steps)
        kept = median(ratios) < 0.98
        if kept:
            best = changed
        rows.append({"change": change, "ratios": ratios, "kept": kept})
        if place.rank == 0:
            spread = f"({min(ratios):.2f} – {max(ratios):.2f})"
            verdict = "kept" if kept else "left out"
            print(f"{change:15} {median(ratios):5.2f} of the time  {spread}  {verdict}")

    # All that were kept: beside the textbook's step, and beside ranks that never talk.
    whole = compare(textbook, best, args.rounds, args.steps)
    silent = talk(best, args.rounds, args.steps)
    last = budget(best, 2 * args.steps)
    if place.rank == 0:
        pace = f"{median(silent):.2f} of the pace without talking"
        print(f"all in all      {median(whole):5.2f} of the time, {pace}")
    numbers = {
        "first": first,
        "last": last,
        "rows": rows,
        "whole": whole,
        "silent": silent,
        "options": sorted(best.options),
    }
    report("tune", place, **numbers)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
