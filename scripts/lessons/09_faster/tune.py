"""One change at a time, each beside the program without it. Kept is what pays beyond chance.

Run:  python tune.py
      torchrun --standalone --nproc-per-node=2 tune.py --rounds 15
"""

import argparse
from collections.abc import Callable
from functools import partial
from math import comb
from statistics import median

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from budget import Training
from devices import Place, here, report, start
from stopwatch import in_turns, slowest

# The number format comes before the memory format: channels last may pay in 16 bits only.
CHANGES = [
    "whole batches",
    "number format",
    "channels last",
    "fused",
    "bucket view",
    "own statistics",
]
NOTHING = "nothing"  # a change that changes nothing: what does chance make of it?
CHANCE = 0.05  # it may be kept in one launch of twenty


def chance(quicker: int, rounds: int) -> float:
    """The probability that of so many tosses of a coin at least `quicker` come up heads."""
    enough = range(quicker, rounds + 1)
    ways = sum(comb(rounds, heads) for heads in enough)
    return ways / 2**rounds


def pays(ratios: list[float]) -> bool:
    """Whether a change was quicker in more rounds than a coin would have chosen (a sign test)."""
    quicker = sum(ratio < 1 for ratio in ratios)
    return chance(quicker, len(ratios)) <= CHANCE


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


def compare(
    before: Callable[[], None], after: Callable[[], None], rounds: int, device: torch.device
) -> list[float]:
    """Time after / time before, round by round: what else this machine does slows both alike."""
    ways = {"before": before, "after": after}
    times = in_turns(ways, rounds, device, before=dist.barrier)
    ratios = []
    for old, new in zip(times["before"], times["after"], strict=True):
        # The slower rank counts. So all ranks know the same number, and decide alike.
        slowest_new = slowest(new, device)
        slowest_old = slowest(old, device)
        ratios.append(slowest_new / slowest_old)
    return ratios


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=64, help="pictures a rank")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=1, help="steps of each side in a round")
    args = parser.parse_args()
    start(place)
    rounds = args.rounds
    device = place.device

    # One change after the other, each on top of those that were kept; at the end, nothing.
    textbook = training(set(), args.batch_size, place)
    best = textbook
    rows = []
    for change in [*CHANGES, NOTHING]:
        options = best.options | {change}
        changed = training(options, args.batch_size, place)
        assert changed.batch_size == best.batch_size
        before = partial(several, best, args.steps)
        after = partial(several, changed, args.steps)
        ratios = compare(before, after, rounds, device)
        kept = pays(ratios)
        if kept and change != NOTHING:
            best = changed
        rows.append({"change": change, "ratios": ratios, "kept": kept})
        if place.rank == 0:
            quicker = sum(ratio < 1 for ratio in ratios)
            verdict = "kept" if kept else "left out"
            of = f"quicker in {quicker:2} of {rounds} rounds"
            typical = median(ratios)
            print(f"{change:15} {typical:5.2f} of the time, {of}: {verdict}")

    # All that were kept: beside the textbook's step, and beside ranks that never talk.
    steps = partial(several, best, args.steps)
    textbook_steps = partial(several, textbook, args.steps)
    whole = compare(textbook_steps, steps, rounds, device)
    alone = training(best.options, args.batch_size, place)
    silent_steps = partial(several, alone, args.steps, talk=False)
    silent = compare(steps, silent_steps, rounds, device)
    if place.rank == 0:
        share = median(silent)
        pace = f"{share:.2f} of the pace without talking"
        typical = median(whole)
        print(f"all in all      {typical:5.2f} of the time, {pace}")
    best_options = sorted(best.options)
    report("tune", place, rows=rows, whole=whole, silent=silent, options=best_options)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
