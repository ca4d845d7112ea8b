"""Measure the ratios that the course speaks of: both sides interleaved in one run, median and spread over the rounds.

Run:  python scripts/bench.py                    # what needs nothing but this machine
      python scripts/bench.py buckets compile    # these parts of it
      python scripts/bench.py --data FOLDER --frameworks --course      # and what takes longer: see --help

Prints one table, and writes it to build/bench.json and build/bench.png. Exits 1 when a part failed; the others stand.
Times on a shared machine are noisy; ratios of neighbours in time much less so. Nothing here is a test.
"""

import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

from tqdm import tqdm

import run
from parts import BUILD, PARTS, Failed
from ratios import draw, table


def chosen(args: argparse.Namespace) -> list[str]:
    """The parts that were named, or all that need no option; and those that an option asks for."""
    asked = {"frameworks": args.frameworks, "accuracy": args.data, "course": args.course}
    return [part for part in PARTS if part in args.parts or asked.get(part, not args.parts)]


def measure(args: argparse.Namespace, work: Path, mark: str) -> tuple[list[dict], list[str]]:
    """The rows of all parts, and what the parts that failed said."""
    rows, failed = [], []
    parts = tqdm(chosen(args), bar_format="{desc} {n_fmt}/{total_fmt} {elapsed}")
    for part in parts:
        parts.set_description(part)
        try:
            rows += PARTS[part](args, work)
        except Failed as failure:
            failed.append(f"{part}: {failure}")
            run.end(mark)  # ranks may outlive their torchrun
    return rows, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; none: all but the last three")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path, help="a folder that holds cifar-10-batches-py: adds the accuracy row")
    parser.add_argument("--budget", type=float, default=120, help="seconds of training for the accuracy row")
    beside = "beside Accelerate, Lightning, Ignite and Fabric: installs their newest versions into build/bench-venv"
    parser.add_argument("--frameworks", action="store_true", help=beside)
    twice = "run all notebooks twice, with `make run` and one by one; it takes long, so once whatever --rounds says"
    parser.add_argument("--course", action="store_true", help=twice)
    args = parser.parse_args()
    for unknown in set(args.parts) - set(PARTS):
        parser.error(f"no part {unknown}: there is {', '.join(PARTS)}")
    if (args.data or "accuracy" in args.parts) and not (args.data and (args.data / "cifar-10-batches-py").is_dir()):
        parser.error(f"there is no cifar-10-batches-py in --data {args.data}")

    work, mark = Path(tempfile.mkdtemp(prefix="course-bench-")), uuid.uuid4().hex
    guard = [sys.executable, __file__, "--guard", mark, work]  # before the mark: it must outlive what it ends
    guardian = subprocess.Popen(guard, stdin=subprocess.PIPE, start_new_session=True)
    os.environ |= {run.MARK: mark, "TMPDIR": str(work)}  # the folder is also for what a killed program leaves behind
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, run.stop)
    try:
        rows, failed = measure(args, work, mark)
    finally:
        run.end(mark)
        guardian.communicate()  # it removes the folder

    import torch

    cpus = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    name = found[1] if (found := re.search(r"model name\s*: (.+)", cpus)) else ""
    kind = platform.processor() or platform.machine()
    machine = {"processor": kind, "cores": os.cpu_count(), "torch": torch.__version__, "rounds": args.rounds}
    machine |= {"name": name}
    title = f"{machine['cores']} cores, torch {machine['torch']}, {args.rounds} rounds"
    print(f"\n{title}\n\n{table(rows)}")
    if rows:
        BUILD.mkdir(exist_ok=True)
        (BUILD / "bench.json").write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
        draw(rows, title, BUILD / "bench.png")
    print("".join(f"\nbench: {said}" for said in failed), file=sys.stderr, end="\n" if failed else "")
    return 1 if failed else 0


if __name__ == "__main__":
    run.MARK = "COURSE_BENCH"  # all that we start inherits it, also what run.py starts and marks for itself
    if sys.argv[1:2] == ["--guard"]:
        run.guard(*sys.argv[2:])
    else:
        sys.exit(main())
