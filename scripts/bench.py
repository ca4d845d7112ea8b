"""Measure the ratios that the course speaks of: both sides in turns, in one run; median and spread.

Run:  python scripts/bench.py                    # what needs nothing but this machine
      python scripts/bench.py buckets compile    # these parts of it
      python scripts/bench.py --data FOLDER --frameworks --course      # and what takes longer

Prints one table, and writes it to build/bench.json and build/bench.png. Exits 1 when a part failed;
the others are measured all the same. Times on a shared machine are noisy; ratios of neighbours in
time much less so. Nothing here is a test.
"""

import argparse
import json
import os
import platform
import re
import sys
from pathlib import Path

from tqdm import tqdm

from bench_parts import BUILD, PARTS, Failed
from bench_table import draw, table
from run_processes import Work, guarded


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    parts = f"{', '.join(PARTS)}; none: all but the last three"
    add("parts", nargs="*", metavar="PART", help=parts)
    add("--rounds", type=int, default=5)
    data = "a folder that holds cifar-10-batches-py: adds the accuracy row"
    add("--data", type=Path, help=data)
    add("--budget", type=float, default=120, help="seconds of training for the accuracy row")
    newest = "installs their newest versions into build/bench-venv"
    beside = f"beside Accelerate, Lightning, Ignite and Fabric: {newest}"
    add("--frameworks", action="store_true", help=beside)
    long = "it takes long, so once whatever --rounds says"
    twice = f"run all notebooks twice, with `make run` and one by one; {long}"
    add("--course", action="store_true", help=twice)
    args = parser.parse_args()
    for unknown in set(args.parts) - set(PARTS):
        parser.error(f"no part {unknown}: there is {', '.join(PARTS)}")
    if args.data or "accuracy" in args.parts:
        pictures = args.data and args.data / "cifar-10-batches-py"
        if not pictures or not pictures.is_dir():
            parser.error(f"there is no cifar-10-batches-py in --data {args.data}")
    return args


def chosen(args: argparse.Namespace) -> list[str]:
    """The parts that were named, or all that need no option; and those that an option asks for."""
    asked = {"frameworks": args.frameworks, "accuracy": args.data, "course": args.course}
    return [part for part in PARTS if part in args.parts or asked.get(part, not args.parts)]


def measure(args: argparse.Namespace, work: Work) -> tuple[list[dict], list[str]]:
    """The rows of all parts, and what the parts that failed printed."""
    rows = []
    failed = []
    parts = tqdm(chosen(args), bar_format="{desc} {n_fmt}/{total_fmt} {elapsed}")
    for part in parts:
        parts.set_description(part)
        try:
            rows += PARTS[part](args, work.folder)
        except Failed as failure:
            failed.append(f"{part}: {failure}")
            work.end()  # ranks may outlive their torchrun
    return rows, failed


def measure_guarded(args: argparse.Namespace) -> tuple[list[dict], list[str]]:
    """`measure` in a new folder. However it ends, the folder and all that it started are gone."""
    with guarded("COURSE_BENCH", "course-bench-") as work:
        # All that we start inherits the mark; the folder is for what a killed program leaves, too.
        os.environ |= work.environment() | {"TMPDIR": str(work.folder)}
        return measure(args, work)


def machine(rounds: int) -> dict:
    """What the ratios were measured on."""
    import torch  # it takes long, and `--help` does not need it

    cpus = Path("/proc/cpuinfo")
    name = re.search(r"model name\s*: (.+)", cpus.read_text() if cpus.exists() else "")
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "rounds": rounds,
        "name": name[1] if name else "",
    }


def save(rows: list[dict], machine: dict, title: str) -> None:
    """Write build/bench.json and build/bench.png."""
    BUILD.mkdir(exist_ok=True)
    text = json.dumps({"machine": machine, "rows": rows}, indent=1)
    (BUILD / "bench.json").write_text(text + "\n")
    draw(rows, title, BUILD / "bench.png")


def main() -> int:
    args = arguments()
    rows, failed = measure_guarded(args)
    where = machine(args.rounds)
    title = f"{where['cores']} cores, torch {where['torch']}, {where['rounds']} rounds"
    print(f"\n{title}\n\n{table(rows)}")
    if rows:
        save(rows, where, title)
    for message in failed:
        print(f"\nbench: {message}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
