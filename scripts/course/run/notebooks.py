"""Run notebooks under papermill, each alone in an empty folder, the longest first.

Run:  python -m course.run.notebooks                    # every lesson
      python -m course.run.notebooks 03 solutions/06    # those two
      python -m course.run.notebooks "" solutions/      # every lesson, and every solved one
      python -m course.run.notebooks --outputs          # bring back what they printed and drew
      python -m course.run.notebooks --executed FOLDER  # keep them there as they ran

`make run` is course.run. Exits 1 when a notebook failed. However it ends, no process that it
started lives on.
"""

import argparse
import json
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

from nbformat import NotebookNode

from course import report
from course.files import emptied, write
from course.lesson import about, meant_by
from course.machine import side_by_side
from course.processes import MARK, Work, guarded
from course.run.bar import Bar
from course.run.notebook import NOTEBOOKS, Run, expected


def choose(names: list[str]) -> dict[Path, NotebookNode]:
    """The notebooks that these names begin, as they are on disk; every lesson without names."""
    import nbformat

    lessons = sorted(NOTEBOOKS.glob("*.ipynb"))
    known = {}
    for path in [*lessons, *NOTEBOOKS.glob("solutions/*.ipynb")]:
        known[path.relative_to(NOTEBOOKS).as_posix()] = path
    chosen: dict[Path, NotebookNode] = {}
    for name in names or [""]:
        paths = [known[each] for each in meant_by(name, sorted(known))]
        if name.endswith(".ipynb") and Path(name).exists():
            paths = [Path(name).resolve()]
        if not paths:
            there = ", ".join(path.stem for path in lessons)
            there = there or "nothing yet (`make build` makes the notebooks)"
            others = "solutions/…; or any path to an .ipynb"
            sys.exit(f"run: no lesson begins with “{name}”: there is {there}; {others}")
        for path in paths:
            try:
                chosen[path] = nbformat.read(path, as_version=4)
            except Exception as error:  # what is no notebook makes nbformat fail in a dozen ways
                what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
                remedy = "make it again with `make build`, or name another"
                sys.exit(f"run: {path} is not a notebook ({what}): {remedy}")
    return chosen


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = "numbers, beginnings of names, or paths; none: every lesson"
    parser.add_argument("lessons", nargs="*", help=names)
    beside = "notebooks side by side (as many as cores and memory allow); "
    beside += "with --outputs, only --jobs 1 waits for a calm machine"
    parser.add_argument("--jobs", type=int, default=side_by_side(), help=beside)
    parser.add_argument("--limit", type=int, default=300, help="seconds that one cell may take")
    kept = "folder for the notebooks as they ran, and runs.json: for course.site"
    parser.add_argument("--executed", type=Path, help=kept)
    forked = "torchrun forks ranks from itself, in half of the processor's time: see course.forked"
    parser.add_argument("--forked", action="store_true", help=forked)
    first = "with --forked: a notebook's first launch is forked, too, as tests do"
    parser.add_argument("--first-forked", action="store_true", help=first)
    kind = parser.add_mutually_exclusive_group()
    quick = "with the small parameters that tests use"
    kind.add_argument("--quick", action="store_true", help=quick)
    outputs = "bring the outputs back into notebooks/"
    kind.add_argument("--outputs", action="store_true", help=outputs)
    args = parser.parse_args()
    if args.outputs and args.forked:
        parser.error("--outputs shows readers their own kind of launches: leave out --forked")
    return args


def usable(folder: Path) -> None:
    """Stop before anything runs when its results could not be kept."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        reason = f"cannot write notebooks into {folder} ({error.strerror})"
        sys.exit(f"run: {reason}: make room, or name another folder with --executed")


def empty_executed(folder: Path) -> None:
    """Take away what an earlier run has left: its notebooks must not pass for this run's."""
    try:
        emptied(folder)
    except OSError as error:
        remedy = "empty it yourself, or name another folder with --executed"
        sys.exit(f"run: cannot empty {folder} ({error.strerror}): {remedy}")


def prepare(
    chosen: dict[Path, NotebookNode],
    work: Work,
    limit: int,
    parameters: Callable[[Path, NotebookNode], dict],
    **options,
) -> list[Run]:
    """The runs of these notebooks. Unless told otherwise, timings are taken one at a time."""
    options = {"timing": str(work.folder / "timing")} | options
    runs = []
    for number, (path, notebook) in enumerate(chosen.items()):
        run = Run(
            path=path,
            folder=work.folder / str(number),
            work=work,
            part=f"{number}-",
            limit=limit,
            parameters=parameters(path, notebook),
            cells=expected(notebook),
            **options,
        )
        runs.append(run)
    return runs


def run_all(
    runs: list[Run],
    jobs: int,
    work: Work,
    ended: Callable[[Run], None],
    first: Iterable[Callable[[threading.Event], None]] = (),
) -> None:
    """Run notebooks, so many side by side, the longest first; `ended` is told of each.

    `first` begins before all of them: something else to do in one of the places.
    """
    stopped = threading.Event()
    pool = ThreadPoolExecutor(max(1, jobs))
    bar = Bar(runs, jobs)
    ordered = sorted(runs, key=lambda run: sum(run.cells), reverse=True)
    try:
        waiting = {pool.submit(each, stopped): each for each in [*first, *ordered]}
        while waiting:
            done, _ = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()  # its exception, if there is one
                each = waiting.pop(future)
                if each in runs:
                    bar.ended.append(each)
                    ended(each)
                    shutil.rmtree(each.folder, ignore_errors=True)  # disks are small
            bar.show()
    finally:
        bar.close()
        stopped.set()
        work.end()
        pool.shutdown(cancel_futures=True)


def print_table(runs: list[Run]) -> None:
    width = max(len(run.name) for run in runs) + 2
    print(f"\n{'lesson':{width}}{'seconds':>8}  result")
    for run in runs:
        lines = [run.result(), *run.problem.splitlines()[1:]]
        below = f"\n{'':{width + 10}}"
        print(f"{run.name:{width}}{run.seconds:8.0f}  {below.join(lines)}")


def file_name(name: str) -> str:
    """How a notebook as it ran is called, so that all of them lie in one folder."""
    return f"{name.replace('/', '-')}.ipynb"


def keep(run: Run, folder: Path) -> dict:
    """Write a notebook as it ran into a folder; how it ended, for runs.json."""
    notebook = run.read()
    if notebook["cells"]:  # not if papermill failed before it wrote any
        write(folder / file_name(run.name), json.dumps(notebook, indent=1) + "\n")
    what, _, lines = run.problem.partition("\n")
    row = {"name": run.name, "seconds": round(run.seconds), "ok": not run.problem}
    return row | {"what": what, "lines": lines, "cell": run.place}


def complain(error: OSError, folder: Path) -> None:
    """Say in one line what could not be written, in this folder if nobody tells where."""
    reason = f"cannot write {error.filename or folder} ({error.strerror})"
    print(f"\nrun: {reason}: make room, then run this again", file=sys.stderr)


def main() -> int:
    args = arguments()
    if args.executed:
        usable(args.executed)
    chosen = choose(args.lessons)
    if args.executed:
        empty_executed(args.executed)
    rows = {}

    def ended(run: Run) -> None:
        """Keep what was asked for at once: an hour that is interrupted keeps what is done."""
        if args.outputs and not run.problem:
            from course.run.outputs import bring_back

            bring_back(run)
        if args.executed:
            rows[run.name] = keep(run, args.executed)

    def parameters(_: Path, notebook: NotebookNode) -> dict:
        return about(notebook).get("quick", {}) if args.quick else {}

    options: dict = {"forked": args.forked, "first": args.first_forked}
    if args.quick:
        options["timing"] = ""
    if args.outputs:
        options |= {"timing": "calm"} if args.jobs == 1 else {"busy": True}

    with guarded(MARK, "course-") as work:
        runs = prepare(chosen, work, args.limit, parameters, **options)
        try:
            run_all(runs, args.jobs, work, ended)
            print_table(runs)
            if args.executed:
                report.keep([rows[run.name] for run in runs], args.executed, quick=args.quick)
            return 1 if any(run.problem for run in runs) else 0
        except OSError as error:
            complain(error, work.folder)
            return 1
        except SystemExit:
            print("\nrun: interrupted; all that it started has ended", file=sys.stderr)
            raise


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    sys.exit(main())
