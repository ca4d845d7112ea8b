"""Measure the ratios that the course speaks of: both sides in turns, each with an interval.

Run:  python -m course.measure                    # what needs nothing but this machine
      python -m course.measure buckets compile    # these parts of it
      python -m course.measure --data FOLDER --frameworks --course      # and what takes longer
      python -m course.measure --keep             # and keep the run in assets/ under this processor
      python -m course.measure --aa 100 transport-1 fsdp    # only known-equal pairs of these parts

Prints its plan first, at the end one table, and writes it to build/bench.json and build/bench.png.
Rounds of a part go on until each of its aims has a verdict, or its minutes are over. Beside each
part two equal things are measured, which should not differ; where they do, the part's rounds are
doubled. Exits 1 when a part failed; the others are measured all the same. Nothing here is a test.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from tqdm import tqdm

from course.measure.long import LONG
from course.measure.machine import file_name, machine
from course.measure.parts import PARTS
from course.measure.rounds import Rounds, measure, until_decided
from course.measure.start import BUILD, ROOT, Failed
from course.measure.table import draw, table
from course.measure.verdicts import FIRST
from course.processes import Work, guarded

UNKNOWN = {"frameworks": "minutes", "accuracy": "half an hour", "course": "an hour"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    parts = f"{', '.join([*PARTS, *LONG])}; none: all but the last three"
    add("parts", nargs="*", metavar="PART", help=parts)
    add("--rounds", type=int, default=FIRST, help="at the first look, and in a launch (20)")
    add("--aa", type=int, default=0, metavar="N", help="measure N known-equal pairs, nothing else")
    add("--keep", action="store_true", help="copy the run into assets/, by the processor's name")
    data = "a folder that holds cifar-10-batches-py: adds the accuracy row"
    add("--data", type=Path, help=data)
    add("--budget", type=float, default=120, help="seconds of training for the accuracy row")
    newest = "installs their newest versions into build/bench-venv"
    beside = f"beside Accelerate, Lightning, Ignite and Fabric: {newest}"
    add("--frameworks", action="store_true", help=beside)
    twice = "run all notebooks twice, with `make run` and one by one; it takes long, so once"
    add("--course", action="store_true", help=twice)
    args = parser.parse_args()
    for unknown in set(args.parts) - {*PARTS, *LONG}:
        parser.error(f"no part {unknown}: there is {', '.join([*PARTS, *LONG])}")
    if args.keep and args.parts:
        parser.error("--keep wants a whole run: name no parts")
    if args.data or "accuracy" in args.parts:
        pictures = args.data and args.data / "cifar-10-batches-py"
        if not pictures or not pictures.is_dir():
            parser.error(f"there is no cifar-10-batches-py in --data {args.data}")
    return args


def chosen(args: argparse.Namespace) -> list[str]:
    """The parts that were named, or all that need no option; and those that an option asks for."""
    asked = {"frameworks": args.frameworks, "accuracy": args.data, "course": args.course}
    named = args.parts or list(PARTS)
    return [part for part in [*PARTS, *LONG] if part in named or asked.get(part)]


def plan(names: list[str], work: Path) -> str:
    """What will be measured, and how long it takes at most."""
    lines = []
    total = 0.0
    for name in names:
        if name in LONG:
            lines.append(f"{name:14} {UNKNOWN[name]}")
            continue
        part = PARTS[name](work)
        total += part.minutes
        lines.append(f"{name:14} {part.minutes:4.1f} min at most, rows: {len(part.ratios)}")
    more = "as long again for a part whose known-equal pair differs"
    return "\n".join([*lines, f"{total:g} minutes at most, and {more}"])


def measure_all(args: argparse.Namespace, work: Work) -> tuple[list[dict], list[str]]:
    """The rows of all parts, and what the parts that failed printed."""
    rows = []
    failed = []
    parts = tqdm(chosen(args), bar_format="{desc} {n_fmt}/{total_fmt} {elapsed}")
    for name in parts:
        parts.set_description(name)
        try:
            if name in LONG:
                rows += LONG[name](args, work.folder)
            else:
                part = PARTS[name](work.folder)
                rows += measure(part, args.rounds, tell=tqdm.write).rows()
        except Failed as failure:
            failed.append(f"{name}: {failure}")
            work.end()  # ranks may outlive their torchrun
    return rows, failed


def known_equal(args: argparse.Namespace, work: Work) -> int:
    """Measure `args.aa` known-equal pairs, as many in each part; how many of them differ.

    A part's pairs are measured beside each other, within the minutes that it has in the bench.
    """
    parts = [PARTS[name](work.folder) for name in chosen(args) if name in PARTS]
    parts = [part for part in parts if part.equal[0]][: args.aa]
    if not parts:
        raise Failed(f"--aa: no known-equal pair in {', '.join(args.parts)}: name other parts")
    wrong = 0
    measured = 0
    for number, part in enumerate(tqdm(parts)):
        # 100 pairs of 15 parts: ten parts have 7 of them, and five 6.
        share = args.aa // len(parts) + (number < args.aa % len(parts))
        rounds = Rounds(part.only_pairs(share), args.rounds)
        until_decided(rounds)
        for pair in rounds.part.ratios:
            differed = rounds.differed(pair)
            wrong += differed
            low, high = rounds.bounds(pair) or (0, float("inf"))
            said = f"{low:.3f} – {high:.3f}{', differs' if differed else ''}"
            tqdm.write(f"{part.name}, {pair.name}: {said} after {rounds.number} rounds")
        measured += share
        tqdm.write(f"{wrong} of {measured} pairs differ")
    return wrong


def save(rows: list[dict], machine: dict, title: str, keep: bool = False) -> None:
    """Write build/bench.json and build/bench.png; with `keep` the numbers into assets/, too."""
    BUILD.mkdir(exist_ok=True)
    text = json.dumps({"machine": machine, "rows": rows}, indent=1, ensure_ascii=False) + "\n"
    (BUILD / "bench.json").write_text(text)
    if keep:
        path = ROOT / "assets" / file_name(machine)
        path.write_text(text)
        print(f"kept as {path}")
    draw(rows, title, BUILD / "bench.png")


def main() -> int:
    args = arguments()
    # All that we start inherits the mark; the folder is for what a killed program leaves, too.
    with guarded("COURSE_BENCH", "course-bench-") as work:
        os.environ |= work.environment() | {"TMPDIR": str(work.folder)}
        if args.aa:
            try:
                return 1 if known_equal(args, work) > args.aa / 10 else 0
            except Failed as failure:
                print(f"bench: {failure}", file=sys.stderr)
                return 1
        print(plan(chosen(args), work.folder))
        rows, failed = measure_all(args, work)
    where = machine()
    title = f"{where['name']}, {where['cores']} cores, torch {where['torch']}"
    print(f"\n{title}\n\n{table(rows)}")
    if rows:
        save(rows, where, title, args.keep and not failed)
    for message in failed:
        print(f"\nbench: {message}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    sys.exit(main())
