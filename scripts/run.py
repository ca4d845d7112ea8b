"""Run notebooks under papermill, each alone in an empty folder, and render them into `build/site`.

    python scripts/run.py                     # every lesson
    python scripts/run.py 03 06               # those lessons; `solutions/03` is the solved one
    python scripts/run.py --outputs           # bring what they printed and drew back into notebooks/

Exits 1 when a notebook failed. However it ends, no process that it started lives on.
"""

import argparse
import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import nbformat
import psutil
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
MARK = "COURSE_RUN"  # torchrun gives every rank a session of its own: what we started is known by its environment alone


def carriers(mark: str) -> list[psutil.Process]:
    """The living processes whose environment, as they were started, carries a mark that begins like this."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(MARK, "").startswith(mark):
                found += [process] if process.status() != psutil.STATUS_ZOMBIE else []
    return found


def end(mark: str, seconds: float = 10) -> None:
    """Kill the carriers until none is left. psutil compares start times, so a reused process id is never hit."""
    deadline = time.monotonic() + seconds
    while (left := carriers(mark)) and time.monotonic() < deadline:
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=0.2)


def guard(mark: str, folder: str) -> None:
    """Runs beside us in a session of its own: when our end of its pipe closes, even by SIGKILL, it clears up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.read()
    end(mark)
    shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Run:
    """One notebook on its way through papermill."""

    path: Path
    folder: Path
    mark: str
    limit: float
    parameters: dict
    seconds: float = 0
    problem: str = ""

    @property
    def name(self) -> str:
        return (
            str(self.path.relative_to(NOTEBOOKS).with_suffix(""))
            if self.path.is_relative_to(NOTEBOOKS)
            else self.path.stem
        )

    @property
    def executed(self) -> Path:
        return self.folder / "executed.ipynb"

    def read(self) -> nbformat.NotebookNode | None:
        """The notebook as far as it has come; papermill writes it anew before and after each cell."""
        with suppress(OSError, ValueError):
            return nbformat.read(self.executed, as_version=4)
        return None

    def __call__(self, stopped: threading.Event, position: int) -> None:
        start, done, moved = time.monotonic(), 0, time.monotonic()
        home = self.folder / "home"
        home.mkdir(parents=True)
        command = [sys.executable, "-m", "papermill", self.path, self.executed, "--cwd", home, "--no-progress-bar"]
        command += ["--kernel", "python3", "--execution-timeout", str(int(self.limit))]
        command += ["-y", json.dumps(self.parameters)] if self.parameters else []
        environment = os.environ | {MARK: self.mark, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        shape, live = "{desc} cell {n_fmt}/{total_fmt} {elapsed}", sys.stderr.isatty()
        bar = tqdm(desc=f"{self.name:24}", total=1, position=position, bar_format=shape, disable=not live)
        with (self.folder / "log").open("w") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            while process.poll() is None and not stopped.wait(0.3):
                if notebook := self.read():
                    states = [cell.metadata.get("papermill", {}).get("status") for cell in notebook.cells]
                    bar.total = len(states)
                    if (now := states.count("completed")) > done:
                        done, moved = now, time.monotonic()
                        if not live:
                            print(f"{self.name}: cell {done}/{len(states)}, {moved - start:.0f} s", flush=True)
                bar.n = done
                bar.refresh()
                if time.monotonic() - moved > self.limit + 30:  # papermill's own limit has not worked
                    break
            end(self.mark)
            process.wait()
        bar.close()
        self.seconds = time.monotonic() - start
        if process.returncode:
            self.problem = self.diagnose((self.folder / "log").read_text())

    def diagnose(self, log: str) -> str:
        """The failing cell and the last 20 lines of what it printed."""
        last = "\n".join(log.splitlines()[-20:])
        for number, cell in enumerate((self.read() or nbformat.v4.new_notebook()).cells, 1):
            if cell.cell_type == "code" and cell.metadata.get("papermill", {}).get("status") in ("failed", "running"):
                texts = [o.get("text") or "\n".join(o.get("traceback", [])) for o in cell.outputs]
                said = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(texts)).strip().splitlines()
                limit = f"no end within {self.limit:.0f} s\n" if "CellTimeoutError" in log or not said else ""
                return f"cell {number}: {cell.source.splitlines()[0]}\n{limit}" + "\n".join(said[-20:] or [last])
        return last or "papermill was stopped"


def render(runs: list[Run], site: Path) -> None:
    """One page a notebook, and an index of lesson, time and result."""
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(mathjax_url="", require_js_url="", jupyter_widgets_base_url="", mermaid_js_url="")
    exporter.exclude_anchor_links = True
    site.mkdir(parents=True, exist_ok=True)
    rows = []
    for run in runs:
        notebook, page = run.read() or nbformat.v4.new_notebook(), f"{run.name.replace('/', '-')}.html"
        title = next(
            (line[2:] for c in notebook.cells for line in c.source.splitlines() if line.startswith("# ")), run.name
        )
        body, _ = exporter.from_notebook_node(notebook, resources={"metadata": {"name": title}})
        # A folded cell stays readable behind one click.
        (site / page).write_text(body)
        result = "ok" if not run.problem else f"failed: {run.problem.splitlines()[0]}"
        rows.append(
            f'<tr><td><a href="{page}">{html.escape(title)}</a></td><td>{run.seconds:.0f} s</td>'
            f"<td>{html.escape(result)}</td></tr>"
        )
    style = "body{font:18px/1.6 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}td{padding:.3rem 1rem .3rem 0}"
    (site / "index.html").write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Distributed Training with PyTorch</title><style>{style}</style>"
        f"<h1>Distributed Training with PyTorch · PyTorch 分散式訓練</h1>"
        f"<table><tr><th>lesson · 課程</th><th>time · 時間</th><th>result · 結果</th></tr>{''.join(rows)}</table></html>\n"
    )


def bring_back(run: Run) -> None:
    """Put the outputs of a run with default parameters into the committed notebook, with the machine they came from."""
    from build import keep_outputs

    machine: dict = {}
    for path in (run.folder / "home").glob("*.json"):
        machine |= {
            key: value for key, value in json.loads(path.read_text()).items() if key in ("torch", "device", "data")
        }
    notebook, executed = nbformat.read(run.path, as_version=4), run.read()
    kept = keep_outputs(executed, notebook, machine)
    nbformat.write(notebook, run.path)
    print(f"{run.name}: outputs of {kept} cells taken")


def choose(names: list[str]) -> list[Path]:
    """Paths of the lessons that these names begin; every lesson without names."""
    if not names:
        return sorted(NOTEBOOKS.glob("*.ipynb"))
    chosen = []
    for name in names:
        found = [Path(name)] if name.endswith(".ipynb") else sorted(NOTEBOOKS.glob(f"{name}*.ipynb"))
        if not found or not found[0].exists():
            known = ", ".join(path.stem for path in sorted(NOTEBOOKS.glob("*.ipynb")))
            sys.exit(f"run: no lesson begins with {name}; there are {known}")
        chosen += [path.resolve() for path in found]
    return chosen


def stop(*_) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lessons", nargs="*", help="numbers or beginnings of names; none: every lesson")
    parser.add_argument("--jobs", type=int, default=2, help="notebooks side by side")
    parser.add_argument("--limit", type=float, default=300, help="seconds that one cell may take")
    parser.add_argument("--quick", action="store_true", help="with the small parameters that tests use")
    parser.add_argument("--outputs", action="store_true", help="bring the outputs back into notebooks/")
    parser.add_argument("--site", type=Path, default=ROOT / "build" / "site", help="folder for the rendered pages")
    args = parser.parse_args()
    if args.quick and args.outputs:
        parser.error("--outputs takes only what a run with the default parameters printed: leave out --quick")
    paths = choose(args.lessons)

    work, mark, stopped = Path(tempfile.mkdtemp(prefix="course-")), uuid.uuid4().hex, threading.Event()
    watch = [sys.executable, __file__, "--guard", mark, work]
    subprocess.Popen(watch, stdin=subprocess.PIPE, start_new_session=True)
    signal.signal(signal.SIGTERM, stop)
    runs = []
    for n, path in enumerate(paths):
        quick = nbformat.read(path, as_version=4).metadata.get("course", {}).get("quick", {}) if args.quick else {}
        runs.append(Run(path, work / str(n), f"{mark}-{n}-", args.limit, quick))
    try:
        with ThreadPoolExecutor(args.jobs) as pool:
            try:
                for future in [pool.submit(run, stopped, n % args.jobs) for n, run in enumerate(runs)]:
                    future.result()
            except BaseException:
                stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                end(mark)
                raise
        render(runs, args.site)
        for run in runs:
            if args.outputs and not run.problem:
                bring_back(run)
    except KeyboardInterrupt:
        print("run: interrupted; everything that it started has ended", file=sys.stderr)
        return 130
    finally:
        end(mark)
        shutil.rmtree(work, ignore_errors=True)
    print(f"\n{'lesson':28}{'seconds':>8}  result")
    for run in runs:
        print(f"{run.name:28}{run.seconds:8.0f}  {'ok' if not run.problem else 'FAILED in ' + run.problem}")
    print(f"\nOpen {args.site / 'index.html'}")
    return 1 if any(run.problem for run in runs) else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--guard"]:
        guard(*sys.argv[2:])
    else:
        sys.exit(main())
