"""The fastest beside the tutorials' network, and beside a published record on GPUs."""

import argparse
import json
from functools import partial
from statistics import mean

import torch
from tqdm import tqdm

from course.measure.machine import read, write
from course.measure.pairs import orders
from course.measure.speedrun.runs import KEPT, Runs, about, log_of, told
from course.measure.speedrun.search import Search, search
from course.measure.speedrun.waterfall import (
    CANDIDATES,
    error,
    errors_at,
    joined,
    ratio,
    recipe_of,
)
from course.measure.start import programs, start, torchrun
from course.processes import Work

TUTORIAL = "batches+cycle+last+smooth"  # lesson 06's loop, with the network of the tutorials
NETWORK = "resnet+last"
TUTORIAL_RATES = (0.0075, 0.015, 0.03, 0.06)  # as many as there are recipes on our side
# What short trainings may leave out, though longer ones want it: joined to what was kept.
SMALL = "batches+cycle+sizes"
FAST = f"{SMALL}+bits+fused+views+smooth"
LARGE = f"{FAST}+wide"
OTHERS = (SMALL, FAST, LARGE, f"{FAST}+muon")
WORSE, MOST = 2, 10  # so many worse rates on each side of the best; so many tries a side
FINAL = "the fastest / the tutorials' network, test error"


def searched(trials: Runs, recipes: list[str], rate: float) -> tuple[list[str], list[Search]]:
    """The best way of each side after equally many tries, and the two searches.

    The tutorials' side begins with four rates, ours with its recipes at one rate; then it
    searches the rate of the best of them. Each try is one training on the validation part.
    """
    firsts = [errors_at(trials, recipe, [rate], seeds=1)[0] for recipe in recipes]
    recipe = recipes[firsts.index(min(firsts))]
    sides = [
        Search(TUTORIAL_RATES, partial(errors_at, trials, TUTORIAL, seeds=1)),
        Search(
            [],
            partial(errors_at, trials, recipe, seeds=1),
            known={rate: min(firsts)},
            spent=len(recipes) - 1,
        ),
    ]
    search(sides, WORSE, MOST)
    ways = [f"{name}@{side.best:g}" for name, side in zip((TUTORIAL, recipe), sides, strict=True)]
    return ways, sides


def fitting(recipe: str, more: str) -> str:
    """A recipe and more switches, each once; without those that need one which was left out."""
    names = dict.fromkeys(f"{recipe}+{more}".split("+"))
    needs = {each.switches: each.needs for each in CANDIDATES}
    return "+".join(name for name in names if needs.get(name, "") in ("", *names))


def with_network(rows: list[dict], recipe: str, rate: float) -> tuple[str, float]:
    """The same with the residual network, at its own rate, if the waterfall has left it out: what
    does not pay in 60 s may pay in 120.
    """
    tried = [row for row in rows if row["row"] == NETWORK]
    if not tried or NETWORK in recipe:
        return recipe, rate
    return joined(recipe, NETWORK), tried[0]["rates"][1]


def run_final(args: argparse.Namespace, work: Work) -> None:
    args.seconds = args.seconds or 120
    args.seeds = args.seeds or 3
    facts = about(args)
    rows = read(KEPT / "waterfall.json").get("rows", [])
    recipe, rate = with_network(rows, *recipe_of(rows))
    if args.fastest:
        recipe, _, given = args.fastest.partition("@")
        rate = float(given)
    plan = f"up to {MOST} tries a side, then {args.seeds} seeds, {args.seconds:g} s each, cold"
    count = 2 * MOST + 2 * args.seeds
    print(told(facts))
    minutes = count * (args.seconds + 12) / 60
    print(f"plan: {plan}; at most {count} trainings in {minutes:.0f} minutes", flush=True)
    folder = programs(work.folder / "programs", args.data)
    options = ["--seconds", args.seconds, "--cold"]
    with tqdm(total=count, unit="training") as bar:
        log = log_of(f"validation-cold-{args.seconds:g}s", facts, folder)
        trials = Runs(log, folder, bar, *options, "--validation", alone=True)
        log = log_of(f"test-cold-{args.seconds:g}s", facts, folder)
        finals = Runs(log, folder, bar, *options, "--points", 8, alone=True)
        recipes = [fitting(recipe, more) for more in OTHERS]
        ways, sides = searched(trials, recipes, rate)
        pairs = finals.pairs(ways, list(range(1, args.seeds + 1)))
    keep_final(facts, ways, sides, pairs)


def points(run: dict) -> list[list[float]]:
    """Seconds and per cent right, test by test."""
    return [[round(each["seconds"], 1), round(100 * each["mirrored"], 2)] for each in run["curve"]]


def keep_final(
    facts: dict, ways: list[str], searches: list[Search], pairs: list[list[dict]]
) -> None:
    """Write and print how the rates were found, and what the pairs of trainings came to."""
    sides = list(zip(*pairs, strict=True))
    errors = [[error(run) for run in side] for side in sides]
    found = {"row": FINAL} | ratio(errors[1], errors[0])
    names = ("tutorial", "fastest")
    for name, way, tried, side in zip(names, ways, searches, sides, strict=True):
        found[name] = {
            "way": way,
            "search": tried.told(WORSE),
            "mirrored": [round(100 * run["mirrored"], 2) for run in side],
            "plain": [round(100 * run["plain"], 2) for run in side],
            "seconds": [round(run["seconds"], 1) for run in side],
            "pace": round(mean(run["pace"] for run in side)),
            "curves": [points(run) for run in side],
        }
        print(f"{name}: {way}: {found[name]['mirrored']} % right; {found[name]['search']}")
    write(KEPT / "final.json", facts, [found])
    print(f"errors: {found['ratio']} of the tutorials' ({found['low']} – {found['high']})")


def run_gpus(args: argparse.Namespace, work: Work) -> None:
    if not torch.cuda.is_available():
        print("no GPU here, so this was not measured: the recipe beside the record needs one")
        return
    folder = programs(work.folder / "programs", args.data)
    ways = {
        "fast": ["fast.py", "--epochs", 16, "--widths", "64,128,256", "--flip"],
        "whitened": ["whitened.py", "--epochs", 10],
    }
    found: dict[str, list] = {}  # row → curves of its trainings
    for gpus in sorted({1, torch.cuda.device_count()}):
        shown = ",".join(map(str, range(gpus)))
        for seed, order in enumerate(orders(list(ways), args.seeds or 3, gpus)):
            for name in order:
                line = [*torchrun(gpus), *ways[name], "--seed", seed]
                start(folder, *line, CUDA_VISIBLE_DEVICES=shown)
                curve = json.loads((folder / f"{name}.json").read_text())["curve"]
                found.setdefault(f"{name}.py, GPUs: {gpus}", []).append(curve)
    write(KEPT / "gpus.json", about(args), gpu_rows(found))


def gpu_rows(found: dict[str, list]) -> list[dict]:
    """For each program and number of GPUs: per cent right and seconds of training, in the end.

    "right" and "seconds" are means over the trainings, "reached" tells for each after how many
    seconds 94 % of the test pictures were right, or None.
    """
    rows = []
    for name, curves in found.items():
        reached = []
        for curve in curves:
            times = [test["seconds"] for test in curve if test["accuracy"] >= 0.94]
            reached.append(times[0] if times else None)
        row = {
            "row": name,
            "right": round(mean(100 * curve[-1]["accuracy"] for curve in curves), 2),
            "seconds": round(mean(curve[-1]["seconds"] for curve in curves), 2),
            "reached": reached,
        }
        rows.append(row)
    return rows
