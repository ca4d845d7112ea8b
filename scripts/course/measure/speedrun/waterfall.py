"""The candidates of the speed-run, and the rule by which they stay."""

import math
import sys
from functools import partial
from statistics import mean, stdev
from typing import NamedTuple

import torch

from course import rooms
from course.measure.speedrun.runs import Runs
from course.measure.speedrun.search import Search, search

sys.path.extend(map(str, rooms.rooms()))  # what a program of a room imports is in a room, too
judge = rooms.load("judge")

AROUND = (0.5, 1.0, 2.0)  # times the rate so far, where a candidate brings rates of its own
WORSE, MOST = 1, 6  # so many worse rates on each side of the best; so many rates at most
TRIES = (900, 901)  # the seeds of trainings that choose a learning rate: no comparison uses them


class Candidate(NamedTuple):
    """Switches, and the learning rates to try: `times` the rate so far, or these `rates`."""

    switches: str
    times: tuple[float, ...] = (1.0,)
    rates: tuple[float, ...] = ()
    needs: str = ""  # a switch without which it would change nothing, or not fit
    long: bool = False  # tried with more seconds


# In this order, each on top of what was kept. For what changes how a network learns, both sides
# choose among as many rates; what changes the pace alone keeps the rate. A large network pays in
# long trainings, such as those that the fastest is chosen for: so it is tried in longer ones.
START = Candidate("plain", rates=(0.02, 0.05, 0.1))
CANDIDATES = [
    Candidate("batches"),
    Candidate("cycle", (1.0, 2.0, 4.0)),
    Candidate("resnet+last", rates=(0.1, 0.2, 0.4), long=True),
    Candidate("bits"),
    Candidate("nothing", (0.7, 1.0, 1.4)),
    Candidate("fused"),
    Candidate("views"),
    Candidate("smooth", (0.7, 1.0, 1.4)),
    Candidate("sizes", (0.7, 1.0, 1.4), needs="resnet"),
    Candidate("ema", (0.7, 1.0, 1.4)),
    Candidate("wide", (0.5, 0.7, 1.0), needs="resnet"),
    Candidate("muon", (0.5, 1.0, 2.0), needs="resnet"),
    Candidate("compile"),
    Candidate("compile+warm"),
]


def joined(base: str, switches: str) -> str:
    """The names of all these switches, as a way has them."""
    return switches if base == "plain" else f"{base}+{switches}"


def error(run: dict) -> float:
    """Per cent of the pictures that are wrong; every side is tested with mirror images."""
    return 100 * (1 - run["mirrored"])


def errors_at(runs: Runs, recipe: str, rates: list[float], seeds: int = len(TRIES)) -> list[float]:
    """The errors of a recipe at each of these rates, in the mean of these seeds.

    One seed was too few for short trainings: it chose a rate at which other seeds did badly.
    """
    ways = [f"{recipe}@{rate:g}:{seed}" for rate in rates for seed in TRIES[:seeds]]
    found = [error(run) for run in runs.make(ways)]
    return [mean(found[first : first + seeds]) for first in range(0, len(found), seeds)]


def compare(runs: Runs, before: str, after: str, seeds: list[int], total: int) -> dict:
    """Pairs of trainings with one seed each; both sides begin with the rate that they come with.
    Hopeless ones end early, which makes the rule only stricter.
    """
    pairs: list[list[dict]] = []
    for part in (seeds[: judge.LOOK], seeds[judge.LOOK :]):
        pairs += runs.pairs([before, after], part)
        gains = [error(old) - error(new) for old, new in pairs]
        if mean(gains) <= 0:
            break
    return decided(pairs, gains, len(seeds), total)


def decided(pairs: list[list[dict]], gains: list[float], seeds: int, total: int) -> dict:
    """What the pairs came to; the interval is the rule's own: it stays if the lower end is > 0."""
    differences = torch.tensor(gains, dtype=torch.float64)
    _, moved = judge.span(differences, total)
    whole = len(gains) == seeds
    sides = list(zip(*pairs, strict=True))
    return {
        "kept": whole and bool(judge.keeps(differences, total)),
        "differences": [round(gain, 2) for gain in gains],
        "low": round(mean(gains) - moved.item(), 2),
        "high": round(mean(gains) + moved.item(), 2),
        "error": [round(mean(error(run) for run in side), 2) for side in sides],
        "pace": [round(mean(run["pace"] for run in side)) for side in sides],
        "seconds": [round(mean(run["seconds"] for run in side), 1) for side in sides],
        "rates": [run["lr"] for run in pairs[0]],
    }


def waterfall(
    short: Runs, candidates: list[Candidate], seeds: int, long: Runs | None = None
) -> list[dict]:
    """One row for each candidate: trainings of the usual seconds, and long ones."""
    base = START.switches
    first = Search(START.rates, partial(errors_at, short, base))
    search([first], WORSE, MOST)
    rate = first.best
    rows = []
    for number, candidate in enumerate(candidates, 1):
        if candidate.needs not in base:
            print(f"\n{candidate.switches:13} needs {candidate.needs}: not tried", flush=True)
            continue
        runs = long if candidate.long and long else short
        tries = 1 if candidate.long else len(TRIES)
        changed = joined(base, candidate.switches)
        rates = list(candidate.rates) or [rate * times for times in candidate.times]
        own_rate, new_rate = rate, rates[0]
        bracket = {}
        if len(rates) > 1:  # the other side chooses as often, in trainings as long
            times = AROUND if candidate.rates else candidate.times
            around = [rate * each for each in times]
            chosen = [
                Search(around, partial(errors_at, runs, base, seeds=tries)),
                Search(rates, partial(errors_at, runs, changed, seeds=tries)),
            ]
            search(chosen, WORSE, MOST)
            own_rate = chosen[0].best
            new_rate = chosen[1].best
            bracket = {"search": [side.told(WORSE) for side in chosen]}
        own = [1000 * number + each for each in range(seeds)]  # nothing else uses these
        sides = [f"{base}@{own_rate:g}", f"{changed}@{new_rate:g}"]
        row = {"row": candidate.switches, "long": candidate.long}
        row |= bracket | compare(runs, *sides, own, len(candidates))
        rows.append(row)
        if row["kept"] and candidate.switches != "nothing":
            base = changed
            rate = new_rate
        elif not candidate.long:  # what a long training chose says nothing of short ones
            rate = own_rate
        verdict = "kept" if row["kept"] else "left out"
        told = f"{mean(row['differences']):+5.1f} points fewer errors, {row['low']:+.1f} at least"
        print(f"\n{candidate.switches:13} {told}: {verdict}", flush=True)
    return rows


def longest(candidates: list[Candidate], seeds: int) -> int:
    """How many trainings a waterfall has at most."""
    trainings = 2 * seeds * len(candidates)
    for each in (START, *candidates):
        rates = len(each.rates or each.times)
        sides = 1 if each is START else 2
        if rates > 1:
            trainings += sides * MOST * (1 if each.long else len(TRIES))
    return trainings


def recipe_of(rows: list[dict]) -> tuple[str, float]:
    """What a waterfall kept: its switches, and its learning rate."""
    recipe = START.switches
    rate = START.rates[0]
    for row in rows:
        stays = row["kept"] and row["row"] != "nothing"
        if stays or not row["long"]:
            rate = row["rates"][stays]
        if stays:
            recipe = joined(recipe, row["row"])
    return recipe, rate


def ratio(ours: list[float], theirs: list[float]) -> dict:
    """Ours / theirs, pair by pair; the interval is that of the mean logarithm, 95 % sure."""
    logs = [math.log(our / their) for our, their in zip(ours, theirs, strict=True)]
    moved = 0.0
    if len(logs) > 1:
        moved = judge.needed(len(logs), 0.025) * stdev(logs) / math.sqrt(len(logs))
    ends = {"ratio": 0.0, "low": -moved, "high": moved}
    return {name: round(math.exp(mean(logs) + by), 3) for name, by in ends.items()}
