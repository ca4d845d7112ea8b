"""The speed-run: from the tutorials' training to the fastest, one change at a time.

Run:  python -m course.measure.speedrun --data FOLDER          # the waterfall: `make speedrun`
      python -m course.measure.speedrun --data FOLDER --final  # then the fastest, the tutorials'
      python -m course.measure.speedrun --data FOLDER --gpus   # lesson 09's recipe, a record's
      python -m course.measure.speedrun --keep                 # put what was measured into assets/

Each part first prints its plan. A change is kept by lesson 24's rule (judge.py): at most 5 % of
whole waterfalls keep a change that does nothing. Every training is kept in build/speedrun as soon
as it is over; stopped and started again, the campaign goes on there. Nothing here is a test.
"""

import argparse
import os
import sys
from pathlib import Path
from statistics import mean

from slugify import slugify
from tqdm import tqdm

from course.measure.machine import read, write
from course.measure.speedrun.final import run_final, run_gpus
from course.measure.speedrun.runs import KEPT, Runs, about, log_of, told
from course.measure.speedrun.waterfall import CANDIDATES, Candidate, longest, recipe_of, waterfall
from course.measure.start import ROOT, Failed, programs
from course.processes import Work, guarded

LONGER = 6  # times the usual seconds, for what pays only in a long training


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", type=Path, help="a folder that holds cifar-10-batches-py; else made pictures")
    add("--source", default="", help="what the pictures are, in words")
    add("--note", default="", help="with --keep: what a reader should know about the runs")
    add("--seconds", type=float, help="of each training: 10, for --final 120")
    add("--seeds", type=int, help="of each side: 6, for --final 3")
    known = [each.switches for each in CANDIDATES]
    add("--candidates", nargs="+", choices=known, help="only these, in this order")
    add("--final", action="store_true", help="the fastest beside the tutorials' network")
    add("--fastest", default="", help="SWITCH+SWITCH@RATE, in place of what the waterfall kept")
    add("--gpus", action="store_true", help="lesson 09's recipe beside a published record's")
    keep = "write what was measured into assets/, and measure no more"
    add("--keep", action="store_true", help=keep)
    args = parser.parse_args()
    if args.seeds == 1 and not args.gpus:
        parser.error("one seed has no interval: --seeds needs two or more")
    if args.fastest and "@" not in args.fastest:
        parser.error(f"--fastest {args.fastest} has no rate: SWITCH+SWITCH@RATE")
    if args.data and not (args.data / "cifar-10-batches-py").is_dir():
        parser.error(f"there is no cifar-10-batches-py in {args.data}")
    return args


def chosen(names: list[str] | None, format: str) -> list[Candidate]:
    """The candidates of this machine: without units for 16 bits, `bits` would change nothing."""
    known = {each.switches: each for each in CANDIDATES}
    return [known[name] for name in names or known if name != "bits" or format != "fp32"]


def run_waterfall(args: argparse.Namespace, work: Work) -> None:
    args.seconds = args.seconds or 10
    args.seeds = args.seeds or 6
    facts = about(args)
    candidates = chosen(args.candidates, facts["gflops"]["format"])
    count = longest(candidates, args.seeds)
    print(told(facts))
    longer = LONGER * args.seconds
    facts["seconds_long"] = longer
    few = longest([each for each in candidates if each.long], args.seeds)
    lengths = f"{args.seconds:g} or {longer:g} s each"
    plan = f"{len(candidates)} candidates, {args.seeds} seeds, {lengths}"
    compiling = 240 * sum("compile" in each.switches for each in candidates)  # roughly
    seconds = count * (args.seconds + 1) + few * (longer - args.seconds)
    minutes = (seconds + 15 * len(candidates) + compiling) / 60
    print(f"plan: {plan}; at most {count} trainings in {minutes:.0f} minutes", flush=True)
    folder = programs(work.folder / "programs", args.data)
    with tqdm(total=count, unit="training") as bar:
        runs = []
        for seconds in (args.seconds, longer):
            log = log_of(f"validation-{seconds:g}s", facts, folder)
            runs.append(Runs(log, folder, bar, "--seconds", seconds, "--validation"))
        rows = waterfall(runs[0], candidates, args.seeds, runs[1])
    write(KEPT / "waterfall.json", facts, rows)
    recipe, rate = recipe_of(rows)
    print(f"\nkept: {recipe}@{rate:g}")


def keep(note: str, gpus: bool) -> None:
    """Write what was measured into assets/: with `gpus` what a GPU did, under the name of the card;
    else what the processor did, under its number of cores.
    """
    names = ("gpus",) if gpus else ("waterfall", "final")
    found = {name: read(KEPT / f"{name}.json") for name in names}
    parts = {name: part for name, part in found.items() if part}
    if not parts:
        first = "--gpus" if gpus else '"--data FOLDER"'
        raise Failed(f"nothing was measured: `make speedrun PARTS={first}` comes first")
    rows = [row for part in parts.values() for row in part["rows"]]
    facts = next(iter(parts.values()))["machine"] | {"note": note}
    if not gpus:
        facts["seconds"] = {name: part["machine"]["seconds"] for name, part in parts.items()}
    name = slugify(facts["device"]) if gpus else f"{facts['cores']}-cores"
    path = ROOT / "assets" / f"speedrun-{name}.json"
    write(path, facts, rows)
    print(f"wrote {path.relative_to(ROOT)}")
    if "final" in parts:
        print(f"a line for assets/how-fast.md:\n{line_to_send(facts, parts['final']['rows'][0])}")


def line_to_send(facts: dict, final: dict) -> str:
    """One row of the table of speed-runs."""
    ours = final["fastest"]
    right = f"{mean(final['tutorial']['mirrored']):.1f} % → {mean(ours['mirrored']):.1f} %"
    errors = f"{final['ratio']:.2f} ({final['low']:.2f} – {final['high']:.2f})"
    seconds = f"{facts['seconds']['final']:g} s, {len(ours['mirrored'])} seeds"
    torchs = f"torch {facts['torch'].partition('+')[0]}"
    words = [facts["device"], torchs, facts["data"], seconds, right, errors, f"`{ours['way']}`"]
    return f"| {' | '.join(words)} |"


def main() -> int:
    args = arguments()
    try:
        if args.keep:
            keep(args.note, args.gpus)
            return 0
        with guarded("COURSE_SPEEDRUN", "course-speedrun-") as work:
            os.environ |= work.environment() | {"TMPDIR": str(work.folder)}
            part = run_gpus if args.gpus else run_final if args.final else run_waterfall
            part(args, work)
    except Failed as failure:
        print(f"speedrun: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
