"""Measure the ratios that the course speaks of: both sides in turns, each with an interval.

Run:  python -m course.measure                    # all parts: `make bench`
      python -m course.measure buckets compile    # these parts
      python -m course.measure --quick            # does each part run? Two rounds, no verdicts
      python -m course.measure --keep             # keep the run in assets/ under this processor

Prints its plan first, at the end one table, and writes it to build/bench.json. Beside each part two
equal things are measured, which should not differ; where they do, the part takes twice its minutes.
Exits 1 when a part failed; the others are measured all the same. Nothing here is a test.
"""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from course.measure.machine import file_name, machine, write
from course.measure.pairs import ROUNDS, Part, measure
from course.measure.parts import parts
from course.measure.start import BUILD, ROOT, Failed
from course.measure.table import table
from course.processes import Work, guarded


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    known = parts(Path())
    add("parts", nargs="*", metavar="PART", help=f"none: all of {', '.join(known)}")
    add("--quick", action="store_true", help="two rounds of each part, too few for a verdict")
    add("--keep", action="store_true", help="copy the run into assets/, by the processor's name")
    args = parser.parse_args()
    for unknown in set(args.parts) - set(known):
        parser.error(f"no part {unknown}: there is {', '.join(known)}")
    if args.keep and (args.parts or args.quick):
        parser.error("--keep wants a whole run: name no parts, and leave out --quick")
    return args


def chosen(args: argparse.Namespace, work: Path) -> dict[str, Part]:
    """The parts that were named, or all, by their names; a quick one is over after one launch."""
    known = parts(work)
    named = {name: known[name] for name in args.parts or known}
    if args.quick:
        named = {name: replace(part, minutes=0) for name, part in named.items()}
    return named


def plan(named: dict[str, Part]) -> str:
    """What will be measured, and how long it takes."""
    lines = []
    for name, part in named.items():
        lines.append(f"{name:14} {part.minutes:4.1f} min, rows: {len(part.ratios)}")
    total = sum(part.minutes for part in named.values())
    more = "as long again for a part whose known-equal pair differs"
    return "\n".join([*lines, f"{total:g} minutes, and {more}"])


def measure_all(
    named: dict[str, Part], work: Work, rounds: int = ROUNDS
) -> tuple[list[dict], list[str]]:
    """The rows of all parts, and what the parts that failed printed."""
    rows = []
    failed = []
    bar = tqdm(named.items(), bar_format="{desc} {n_fmt}/{total_fmt} {elapsed}")
    for name, part in bar:
        bar.set_description(name)
        try:
            rows += measure(part, rounds, tell=tqdm.write)
        except Failed as failure:
            failed.append(f"{name}: {failure}")
            work.end()  # ranks may outlive their torchrun
    return rows, failed


def save(rows: list[dict], where: dict, keep: bool) -> None:
    """Write build/bench.json; with `keep` into assets/, too."""
    write(BUILD / "bench.json", where, rows)
    if keep:
        path = ROOT / "assets" / file_name(where)
        write(path, where, rows)
        print(f"kept as {path}")


def main() -> int:
    args = arguments()
    # All that we start inherits the mark; the folder is for what a killed program leaves, too.
    with guarded("COURSE_BENCH", "course-bench-") as work:
        os.environ |= work.environment() | {"TMPDIR": str(work.folder)}
        named = chosen(args, work.folder)
        print(plan(named))
        rows, failed = measure_all(named, work, 2 if args.quick else ROUNDS)
    where = machine()
    print(f"\n{where['name']}, {where['cores']} cores, torch {where['torch']}\n\n{table(rows)}")
    if rows:
        save(rows, where, args.keep and not failed)
    for message in failed:
        print(f"\nbench: {message}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    sys.exit(main())
