"""What `make grade` may be told: the folder, and how much a notebook may use."""

import argparse
from pathlib import Path

from grade_watch import Limits

ROOT = Path(__file__).resolve().parents[1]


def limits(args: argparse.Namespace) -> Limits:
    memory = round(args.memory * 1024)
    disk = round(args.disk * 1024)
    return Limits(args.limit, args.cell, memory, args.processes, disk)


def arguments(about: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=about)
    add = parser.add_argument
    add("folder", help="with the students' notebooks, in it or below")
    add("--jobs", type=int, default=1, help="notebooks side by side (1)")
    add("--limit", type=float, default=600, help="seconds for a whole notebook (600)")
    add("--cell", type=float, default=120, help="seconds for a cell, which is then left (120)")
    add("--memory", type=float, default=8, help="GiB for all processes of a notebook (8)")
    add("--processes", type=int, default=256, help="of a notebook (256)")
    add("--disk", type=float, default=2, help="GiB of files that it may write, in memory (2)")
    add("--all", action="store_true", help="grade also what was graded before")
    add("--results", type=Path, help="folder for grades.csv and index.html (build/grades)")
    add("--root", type=Path, default=ROOT, help="of the course")
    args = parser.parse_args()
    if not args.folder:  # as from `make grade` without DIR
        parser.error("name the folder of the students' notebooks: make grade DIR=submissions")
    args.folder = Path(args.folder)
    if not args.folder.is_dir():
        parser.error(f"{args.folder} is no folder")
    args.results = args.results or args.root / "build" / "grades"
    return args


def described(args: argparse.Namespace) -> str:
    """The limits in words."""
    sizes = f"{args.memory:g} GiB of memory, {args.disk:g} GiB of files"
    return f"{args.limit:g} s, {sizes} and {args.processes} processes"
