"""The fastest beside the tutorials' network, and beside a published record on GPUs."""

import argparse
import json
import os
import subprocess
from statistics import mean

import torch
from tqdm import tqdm

from course.measure.speedrun.facts import about, log_of, ranks, read, told, write
from course.measure.speedrun.runs import Runs, programs, torchrun
from course.measure.speedrun.waterfall import TRIES, error, ratio, recipe_of
from course.processes import Work

TUTORIAL = "batches+cycle+last+smooth"  # lesson 06's loop, with the network of the tutorials
TUTORIAL_RATES = (0.03, 0.06, 0.12, 0.24)  # as many tries as the fastest gets
# What short trainings may leave out, though longer ones want it: joined to what was kept.
SMALL = "batches+cycle+sizes"
LARGE = f"{SMALL}+bits+fused+views+smooth+wide"
OTHERS = ((1.0, SMALL), (2.0, SMALL), (1.0, LARGE), (2.0, LARGE))  # times the rate, and switches
FINAL = "the fastest / the tutorials' network, test error"


def tried(runs: Runs, ways: list[str]) -> str:
    """The best of these ways, by one training each on the validation part."""
    results = runs.make([f"{way}:{TRIES[0]}" for way in ways])
    return ways[results.index(min(results, key=error))]


def run_final(args: argparse.Namespace, work: Work) -> None:
    args.seconds = args.seconds or 120
    args.seeds = args.seeds or 3
    facts = about(args)
    recipe, rate = recipe_of(read("waterfall").get("rows", []))
    if args.fastest:
        recipe, _, given = args.fastest.partition("@")
        rate = float(given)
    plan = f"4 tries a side, then {args.seeds} seeds, {args.seconds:g} s each from a cold start"
    count = 2 * len(OTHERS) + 2 * args.seeds
    print(told(facts))
    minutes = count * (args.seconds + 12) / 60
    print(f"plan: {plan}; {count} trainings in {minutes:.0f} minutes", flush=True)
    folder = programs(work.folder / "programs", args.data)
    options = ["--seconds", args.seconds, "--cold"]
    log = log_of(f"validation-cold-{args.seconds:g}s", facts, folder)
    trials = Runs(log, folder, ranks(), *options, "--validation", alone=True)
    log = log_of(f"test-cold-{args.seconds:g}s", facts, folder)
    finals = Runs(log, folder, ranks(), *options, "--points", 8, alone=True)
    with tqdm(total=count, unit="training") as bar:
        trials.bar = finals.bar = bar
        theirs = tried(trials, [f"{TUTORIAL}@{each}" for each in TUTORIAL_RATES])
        ways = []
        for times, more in OTHERS:
            names = dict.fromkeys([*recipe.split("+"), *more.split("+")])
            ways.append("+".join(name for name in names if name) + f"@{rate * times:g}")
        ours = tried(trials, list(dict.fromkeys(ways)))
        pairs = []
        for seed in range(1, args.seeds + 1):
            sides = [f"{theirs}:{seed}", f"{ours}:{seed}"]
            order = sides if seed % 2 else sides[::-1]
            results = dict(zip(order, finals.make(order, together=2), strict=True))
            pairs.append([results[side] for side in sides])
    keep_final(facts, theirs, ours, pairs)


def points(run: dict) -> list[list[float]]:
    """Seconds and per cent right, test by test."""
    return [[round(each["seconds"], 1), round(100 * each["mirrored"], 2)] for each in run["curve"]]


def keep_final(facts: dict, theirs: str, ours: str, pairs: list[list[dict]]) -> None:
    """Write and print what the pairs of trainings came to."""
    errors = [[error(run) for run in side] for side in zip(*pairs, strict=True)]
    found = {"row": FINAL} | ratio(errors[1], errors[0])
    for number, name in enumerate(("tutorial", "fastest")):
        side = [pair[number] for pair in pairs]
        found[name] = {
            "way": (theirs, ours)[number],
            "mirrored": [round(100 * run["mirrored"], 2) for run in side],
            "plain": [round(100 * run["plain"], 2) for run in side],
            "seconds": [round(run["seconds"], 1) for run in side],
            "pace": round(mean(run["pace"] for run in side)),
            "curves": [points(run) for run in side],
        }
    write("final", {"machine": facts, "rows": [found]})
    for name in ("tutorial", "fastest"):
        print(f"{name}: {found[name]['way']}: {found[name]['mirrored']} % right")
    print(f"errors: {found['ratio']} of the tutorials' ({found['low']} – {found['high']})")


def run_gpus(args: argparse.Namespace, work: Work) -> int:
    if not torch.cuda.is_available():
        print("no GPU here, so this was not measured: the recipe beside the record needs one")
        return 0
    args.seeds = args.seeds or 3
    folder = programs(work.folder / "programs", args.data)
    ways = {
        "fast.py": ["fast.py", "--epochs", "16", "--widths", "64,128,256", "--flip"],
        "whitened.py": ["whitened.py", "--epochs", "10"],
    }
    found: dict[str, list] = {}  # row → curves of its trainings
    for gpus in sorted({1, torch.cuda.device_count()}):
        shown = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(gpus)))}
        for seed in range(args.seeds):
            for name in (list(ways), list(ways)[::-1])[seed % 2]:  # each begins as often
                command = ways[name]
                line = [*torchrun(gpus), *command, "--seed", str(seed)]
                subprocess.run(line, cwd=folder, check=True, env=os.environ | shown)
                told = json.loads((folder / name.replace(".py", ".json")).read_text())
                found.setdefault(f"{name}, GPUs: {gpus}", []).append(told["curve"])
    write("gpus", {"machine": about(args), "rows": gpu_rows(found)})
    return 0


def gpu_rows(found: dict[str, list]) -> list[dict]:
    """For each program and number of GPUs: per cent right and seconds of training, in the end.

    "right" and "seconds" are means over the trainings, "reached" tells for each after how many
    seconds 94 % of the test pictures were right, or None.
    """
    rows = []
    for name, curves in found.items():
        ends = [curve[-1] for curve in curves]
        right = [100 * end["accuracy"] for end in ends]
        reached = []
        for curve in curves:
            times = [test["seconds"] for test in curve if test["accuracy"] >= 0.94]
            reached.append(times[0] if times else None)
        numbers = {
            "right": mean(right),
            "low": min(right),
            "high": max(right),
            "seconds": mean(end["seconds"] for end in ends),
        }
        row = {"row": name} | {key: round(value, 2) for key, value in numbers.items()}
        points = [
            [[round(test["seconds"], 2), test["accuracy"]] for test in curve] for curve in curves
        ]
        rows.append(row | {"reached": reached, "curves": points})
    return rows
