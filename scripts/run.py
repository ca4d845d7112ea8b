"""Run notebooks under papermill, each alone in an empty folder, and report it in `build/runs`.

Run:  python scripts/run.py                    # every lesson
      python scripts/run.py 03 solutions/06    # those two
      python scripts/run.py "" solutions/      # every lesson, and every solved one
      python scripts/run.py --outputs          # bring back what they printed and drew
      python scripts/run.py --executed build/executed    # what `make run` does: for the site

Exits 1 when a notebook failed. However it ends, no process that it started lives on.
"""

import argparse
import json
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import quick_jsonschema  # noqa: F401
from run_files import emptied, write
from run_notebook import NOTEBOOKS, Run
from run_processes import MARK, Work, guarded

ROOT = NOTEBOOKS.parent
BRINGING = threading.Lock()  # all lessons share one index of errors


def choose(names: list[str]) -> dict[Path, dict]:
    """The notebooks that these names begin, as they are on disk; every lesson without names."""
    import nbformat  # after quick_jsonschema

    lessons = sorted(NOTEBOOKS.glob("*.ipynb"))
    known = {}
    for path in [*lessons, *NOTEBOOKS.glob("solutions/*.ipynb")]:
        known[path.relative_to(NOTEBOOKS).as_posix()] = path
    chosen: dict[Path, dict] = {}
    for name in names or [""]:
        depth = name.count("/")
        paths = [known[k] for k in sorted(known) if k.startswith(name) and k.count("/") == depth]
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
    beside = "notebooks side by side (2); with --outputs, only --jobs 1 waits for a calm machine"
    parser.add_argument("--jobs", type=int, default=2, help=beside)
    parser.add_argument("--limit", type=float, default=300, help="seconds that one cell may take")
    site = ROOT / "build" / "runs"
    parser.add_argument("--site", type=Path, default=site, help="folder for the report's pages")
    kept = "folder for the notebooks as they ran, and runs.json: for scripts/site_build.py"
    parser.add_argument("--executed", type=Path, help=kept)
    forked = "torchrun forks ranks from itself: for tests, in half of the processor's time"
    parser.add_argument("--forked", action="store_true", help=forked)
    kind = parser.add_mutually_exclusive_group()
    quick = "with the small parameters that tests use"
    kind.add_argument("--quick", action="store_true", help=quick)
    outputs = "bring the outputs back into notebooks/"
    kind.add_argument("--outputs", action="store_true", help=outputs)
    args = parser.parse_args()
    if args.outputs and args.forked:
        parser.error("--outputs shows readers their own kind of launches: leave out --forked")
    return args


def check_places(args: argparse.Namespace) -> None:
    """Stop before anything runs when its results could not be kept."""
    try:
        for folder in filter(None, [args.site, args.executed]):
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        option = "--site" if folder == args.site else "--executed"
        reason = f"cannot write pages into {folder} ({error.strerror})"
        sys.exit(f"run: {reason}: name another folder with {option}")


def empty_executed(folder: Path) -> None:
    """Take away what an earlier run has left: its notebooks must not pass for this run's."""
    try:
        emptied(folder)
    except OSError as error:
        remedy = "empty it yourself, or name another folder with --executed"
        sys.exit(f"run: cannot empty {folder} ({error.strerror}): {remedy}")


def prepare(args: argparse.Namespace, chosen: dict[Path, dict], work: Work) -> list[Run]:
    runs = []
    for number, (path, notebook) in enumerate(chosen.items()):
        quick = notebook.metadata.get("course", {}).get("quick", {})
        run = Run(
            path=path,
            folder=work.folder / str(number),
            work=work,
            part=f"{number}-",
            limit=args.limit,
            cells=len(notebook.cells),
            parameters=quick if args.quick else {},
            forked=args.forked,
        )
        runs.append(run)
    return runs


def run_one(run: Run, args: argparse.Namespace, stopped: threading.Event) -> None:
    """Run one notebook; if readers will see its times, they wait until nobody else computes.

    Its outputs are brought back at once: an hour of runs that is interrupted keeps what is done.
    """
    if args.outputs and args.jobs > 1:
        run.busy = True  # with our own other notebooks
    run.calm = args.outputs and args.jobs == 1
    if stopped.is_set():
        return
    run(stopped)
    if args.outputs and not run.problem and not stopped.is_set():
        from run_outputs import bring_back  # after quick_jsonschema

        with BRINGING:
            bring_back(run)


def print_table(runs: list[Run]) -> None:
    width = max(len(run.name) for run in runs) + 2
    print(f"\n{'lesson':{width}}{'seconds':>8}  result")
    for run in runs:
        lines = [run.result(), *run.problem.splitlines()[1:]]
        below = f"\n{'':{width + 10}}"
        print(f"{run.name:{width}}{run.seconds:8.0f}  {below.join(lines)}")


def keep_executed(runs: list[Run], args: argparse.Namespace) -> None:
    """Write the notebooks as they ran and, last, runs.json, which tells how each run ended."""
    rows = []
    for run in runs:
        notebook = run.read()
        if notebook["cells"]:  # not if papermill failed before it wrote any
            path = args.executed / f"{run.name.replace('/', '-')}.ipynb"
            write(path, json.dumps(notebook, indent=1) + "\n")
        row = {"name": run.name, "seconds": round(run.seconds), "ok": not run.problem}
        rows.append(row | {"what": run.problem.partition("\n")[0], "cell": run.place})
    ended = datetime.now().astimezone().isoformat(" ", "minutes")
    report = {"ended": ended, "quick": args.quick, "runs": rows}
    write(args.executed / "runs.json", json.dumps(report, indent=1, ensure_ascii=False) + "\n")


def keep(runs: list[Run], args: argparse.Namespace) -> None:
    """Write what was asked for: pages, and the notebooks as they ran."""
    from run_pages import render  # after quick_jsonschema, and after the runs: it takes a second

    if args.executed:
        keep_executed(runs, args)
    render(runs, args.site)


def main() -> int:
    args = arguments()
    check_places(args)
    chosen = choose(args.lessons)
    if args.executed:
        empty_executed(args.executed)
    # It says ok of another run, and this one may be interrupted.
    (args.site / "index.html").unlink(missing_ok=True)

    with guarded(MARK, "course-") as work:
        runs = prepare(args, chosen, work)
        stopped = threading.Event()
        pool = ThreadPoolExecutor(max(1, args.jobs))
        try:
            # Later lessons take longer: with them first, both jobs end together.
            list(pool.map(lambda run: run_one(run, args, stopped), runs[::-1]))
            print_table(runs)
            keep(runs, args)
            print(f"\nOpen {args.site / 'index.html'}")
            return 1 if any(run.problem for run in runs) else 0
        except OSError as error:
            place = error.filename or work.folder
            reason = f"cannot write {place} ({error.strerror})"
            print(f"\nrun: {reason}: make room, then run this again", file=sys.stderr)
            return 1
        except SystemExit:
            print("\nrun: interrupted; ending everything that it started", file=sys.stderr)
            raise
        finally:
            stopped.set()
            work.end()
            pool.shutdown(cancel_futures=True)


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    sys.exit(main())
