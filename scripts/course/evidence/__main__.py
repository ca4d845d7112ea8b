"""Run lessons on this machine's GPUs, or take in what they recorded elsewhere, for the pages.

make evidence                              # every lesson, solved, one after another
make evidence LESSONS="06 09"              # those two
make evidence FILE=06_run.json             # a record from another machine, or a folder of them
make evidence PARTS=--nccl LESSONS="06"    # on one GPU, over nccl: checks alone, nothing is kept

What has run is kept in assets/, a file for each kind of machine, and is not run again unless it is
named. A record is checked first: it must be whole, of a lesson as it is today, and on Kaggle of two
T4s if the lesson uses any GPU.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import nbformat

from course import ROOT
from course.evidence.judge import of_record, plain, verdicts
from course.evidence.kept import TWO, keep, machines, valid
from course.evidence.record import RecordError, checks, fit, read, record_file, what_runs
from course.evidence.shared import ALLOW, NEEDED, nccl_version, share_gpu
from course.lesson import BuildError, Lesson, about, meant_by

LIMIT = 1800  # seconds for one cell


def today(root: Path) -> dict[str, Path]:
    """The solved notebooks, by the names of the lessons."""
    paths = sorted((root / "notebooks" / "solutions").glob("*.ipynb"))
    if not paths:
        sys.exit("evidence: there are no solved notebooks: make them with `make build`.")
    return {path.stem: path for path in paths}


def forecast(run: dict) -> str:
    """Whether a whole run went as its lesson says: then no check of the solved notebook fails."""
    _, wrong = checks(run)
    return "NOT as forecast" if wrong else "as forecast"


def take_in(root: Path, solved: dict[str, Path], path: Path) -> bool:
    """Keep what a record shows, and say in a line what came of it."""
    try:
        run = read(path)
        lesson = run["notebook"].removeprefix("solutions/")
        if lesson not in solved or not run["notebook"].startswith("solutions/"):
            raise RecordError(f"it is of {run['notebook']}, and evidence comes from solved lessons")
    except RecordError as error:
        print(f"{path.name}: NOT kept: {plain(error)}: fetch it again, or name another")
        return False
    verdict = of_record(root, run)
    notebook = nbformat.read(solved[lesson], as_version=4)
    here = Lesson.of(notebook)
    problem = ""
    gpus = run["machine"]["gpus"]
    if not verdict.well:
        problem = verdict.said
    elif run["code"] != what_runs(here.cells):
        problem = "it is of an older version of the lesson, and fills nothing: run today's"
    elif run["machine"]["kaggle"] and about(notebook).get("gpu_minutes") and gpus != TWO:
        on = ", ".join(gpus) or "no GPU"
        problem = f"it ran on {on}: choose GPU T4 ×2 under Accelerator, and run it again"
    elif not run["machine"]["kaggle"] and not gpus:
        problem = "it ran on no GPU, and this is about GPUs: run it on a machine that has one"
    if problem:
        page = f" → {verdict.page}" if verdict.page else ""
        print(f"{lesson}: NOT kept: {problem}{page}")
        return False
    place = keep(root, run, verdicts(run, here))
    print(f"{lesson}: {forecast(run)}, {verdict.said}: kept in {place.relative_to(root)}")
    return True


def records(path: Path) -> list[Path]:
    """One record, or those in a folder."""
    if path.is_dir():
        found = sorted(each for each in path.rglob("*_run.json") if not each.is_symlink())
        if not found:
            sys.exit(f"evidence: no record NN_run.json is in {path}: name another folder, or file.")
        return found
    if not path.is_file():
        sys.exit(f"evidence: there is no {path}: name a file NN_run.json, or a folder of them.")
    return [path]


def gpus() -> int:
    """How many GPUs this machine has."""
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return done.stdout.count("\nGPU ") + done.stdout.startswith("GPU ")


def chosen(root: Path, solved: dict[str, Path], names: list[str]) -> list[str]:
    """The lessons to run: those that are named, or those that no machine like this has shown."""
    for name in names:
        if not meant_by(name, solved):
            sys.exit(f"evidence: no lesson begins with “{name}”: there is {', '.join(solved)}.")
    named = [each for name in names for each in meant_by(name, solved)]
    if named:
        return list(dict.fromkeys(named))
    code = {name: what_runs(Lesson.at(path).cells) for name, path in solved.items()}
    own = [file for file in machines(root).values() if not file["machine"].get("kaggle")]
    done = {name for file in own for name in valid(file, code)}
    return [name for name in solved if name not in done]


def run_here(root: Path, path: Path, nccl: bool) -> Path:
    """Run one solved notebook in an empty folder; where its record is, if it left any."""
    folder = root / "build" / "evidence"
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / record_file(path.stem)
    record.unlink(missing_ok=True)
    notebook = nbformat.read(path, as_version=4)
    fit(notebook, f"solutions/{path.stem}")
    if nccl:
        share_gpu(notebook)
    copy = folder / path.name
    nbformat.write(notebook, copy)
    command = [sys.executable, "-m", "course.run.notebooks", "--jobs", "1", "--limit", str(LIMIT)]
    more = {"COURSE_RECORDS": str(folder)} | (ALLOW if nccl else {})
    subprocess.run([*command, copy], env=os.environ | more)
    return record


def run_all(root: Path, solved: dict[str, Path], names: list[str], nccl: bool) -> int:
    """Run lessons one after another, and keep each as soon as it has ended."""
    count = gpus()
    if not count:
        sys.exit("evidence: there is no GPU here, so nothing was run: `nvidia-smi -L` lists none.")
    if nccl and nccl_version() < NEEDED:
        version = ".".join(map(str, nccl_version()))
        sys.exit(f"evidence: nccl here is {version}: install 2.30 or later, or leave out --nccl.")
    wanted = chosen(root, solved, names)
    print(f"{len(wanted)} lessons to run, {len(solved) - len(wanted)} are kept or not asked for")
    well = []
    for name in wanted:
        record = run_here(root, solved[name], nccl)
        if not record.exists():
            print(f"{name}: NOT as forecast, it left no record: see above")
        elif nccl:
            verdict = of_record(root, read(record))
            said = forecast(read(record)) if verdict.well else "NOT as forecast"
            print(f"{name}: {said}, {verdict.said}")
            well += [name] * verdict.well
        else:
            well += [name] * take_in(root, solved, record)
    print(f"{len(well)} of {len(wanted)} lessons ran to the end")
    return 0 if len(well) == len(wanted) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = "numbers or beginnings of names; none: those that have not run yet"
    parser.add_argument("lessons", nargs="*", help=names)
    file = "take in a record NN_run.json, or a folder of them, and run nothing"
    parser.add_argument("--file", type=Path, help=file)
    nccl = "two ranks share one GPU over nccl; nothing is kept"
    parser.add_argument("--nccl", action="store_true", help=nccl)
    parser.add_argument("--root", type=Path, default=ROOT)
    args = parser.parse_args()
    root = args.root.resolve()
    solved = today(root)
    try:
        if args.file:
            taken = [take_in(root, solved, path) for path in records(args.file)]
            print(f"{sum(taken)} of {len(taken)} records kept")
            return 0 if all(taken) else 1
        return run_all(root, solved, args.lessons, args.nccl)
    except BuildError as error:
        sys.exit(f"evidence: {error}")
    except OSError as error:
        sys.exit(f"evidence: {error.filename}: {error.strerror}: make room, or allow writing.")
    except KeyboardInterrupt:
        print("evidence: interrupted; what had ended is kept, and the same command goes on")
        return 1


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    sys.exit(main())
