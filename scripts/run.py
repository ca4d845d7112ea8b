"""Run notebooks under papermill, each alone in an empty folder, and render them into `build/site`.

Run:  python scripts/run.py                     # every lesson
      python scripts/run.py 03 solutions/06     # those two; `solutions/` is every solved one, "" every lesson
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
from itertools import takewhile
from pathlib import Path

import psutil
from tqdm import tqdm

import rooms

replacing = rooms.load("atomic").replacing
ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
MARK = "COURSE_RUN"  # torchrun gives every rank a session of its own: what we started is known by its environment alone
# jsonschema takes two seconds to import this module, for a check that no notebook needs; it lives without.
sys.modules["rfc3987_syntax"] = None
# Kernels that start side by side may choose the same TCP port; where it is iopub's or the heartbeat's, ipykernel 7.4
# neither answers nor ends. So they talk over sockets beside the notebook's own folder, by a path of few letters.
PAPERMILL = """import json, sys
sys.modules["rfc3987_syntax"] = None
from papermill import execute_notebook
from traitlets.config import Config
notebook, executed, parameters = sys.argv[1:]
config = Config(KernelManager={"transport": "ipc", "ip": "../kernel"})
execute_notebook(
    notebook, executed, json.loads(parameters), kernel_name="python3", progress_bar=False, config=config
)"""
# Pages load nothing and run nothing, whatever a notebook says: they read the same without a network.
HEAD = """<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<style>body, body.jp-Notebook { box-sizing: border-box; max-width: 66rem; margin: 0 auto; padding: 1.5rem 1rem 4rem;
  font: 17px/1.65 system-ui, "Noto Sans", "Noto Sans TC", "Noto Sans CJK TC", sans-serif; color: #24292f }
h1, .jp-Cell h1, .jp-Cell h2, .jp-Cell h3 { line-height: 1.35 } a { color: #0a58ca } img { max-width: 100% }
table { border-collapse: collapse } th { text-align: left } th, small { color: #59636e } pre { overflow-x: auto }
.index th, .index td { padding: .5rem 1.5rem .5rem 0; border-bottom: 1px solid #d1d9e0; vertical-align: top }
.index td { overflow-wrap: anywhere } .index td:nth-child(2) { white-space: nowrap }
.ok { color: #1a7f37 } .failed, .failed a { color: #b42318 } pre.failed { padding: .8rem; background: #fff5f4 }
summary { cursor: pointer; color: #59636e; font: 14px/1.8 monospace; padding: 0 .5rem; overflow-wrap: anywhere }
details .jp-Editor { display: block; border: 0 }
.jp-Notebook .jp-RenderedHTMLCommon { font: inherit; color: inherit; overflow-wrap: break-word; padding-right: 0 }
.jp-Cell p, .jp-Cell li { max-width: 46rem } .jp-Cell pre { white-space: pre }
.jp-Notebook .jp-RenderedHTMLCommon table { display: block; overflow-x: auto; margin-left: 0 }
@media (max-width: 700px) { .jp-InputPrompt, .jp-OutputPrompt { display: none } }
</style>"""
PAGE = """{% extends "lab/index.html.j2" %}
{% block html_head_js %}{% endblock %}{% block jupyter_widgets %}{% endblock %}
{% block html_head_js_mathjax %}{% endblock %}{% block html_head_js_mermaidjs %}{% endblock %}
{% block html_head_css %}{{ resources.head }}{% endblock %}
{% block body_header %}{{ super() }}{{ resources.top }}{% endblock %}
{% block input %}{% if cell.metadata.get("jupyter", {}).get("source_hidden") %}
<details class="jp-InputArea-editor"><summary>{{ cell.source.split("\\n")[0] | e }}</summary>{{ super() }}</details>
{% else %}{{ super() }}{% endif %}{% endblock %}"""
INDEX = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<title>Distributed Training with PyTorch</title>HEAD</head><body class="index">
<h1>Distributed Training with PyTorch · PyTorch 分散式訓練</h1>
<table><tr><th>lesson · 課程</th><th>time · 時間</th><th>result · 結果</th></tr>ROWS</table></body></html>
"""


def end(mark: str, spare: int = 0, seconds: float = 10) -> None:
    """Kill, until none is left, the processes that were started with a mark that begins like this."""
    deadline, quiet = time.monotonic() + seconds, 0
    while quiet < 2 and time.monotonic() < deadline:  # one look can miss a process in the moment of its birth
        quiet += 1
        for number in set(psutil.pids()) - {os.getpid(), spare}:
            with suppress(psutil.Error):
                process = psutil.Process(number)  # knows its start time, so a reused process id is never hit
                if process.environ().get(MARK, "").startswith(mark) and process.status() != psutil.STATUS_ZOMBIE:
                    quiet = 0
                    process.kill()
        time.sleep(0.05)


def guard(mark: str, folder: str) -> None:
    """Runs beside us in a session of its own: when our end of its pipe closes, even by SIGKILL, it clears up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.read()
    end(mark)
    shutil.rmtree(folder, ignore_errors=True)


def write(path: Path, text: str) -> None:
    """Give a file a new text. OSError names the file, which a full disk does not."""
    try:
        with replacing(path) as file:
            file.write(text.encode())
    except OSError as error:
        error.filename = str(path)
        raise


def printed(cell: dict) -> list[str]:
    """The lines that a cell printed, as a terminal would show them, without colours."""
    texts = ["".join(o.get("text", [])) or "\n".join(o.get("traceback", [])) for o in cell.get("outputs", [])]
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", "".join(text.rstrip("\n") + "\n" for text in texts))
    return [line.rstrip().rpartition("\r")[2] for line in plain.rstrip().split("\n") if plain.strip()]


@dataclass
class Run:
    """One notebook on its way through papermill."""

    path: Path
    folder: Path
    mark: str
    limit: float
    cells: int
    quick: dict
    seconds: float = 0
    problem: str = ""  # one line that tells where it failed, then the last lines printed there
    place: str = ""  # id of the failing cell

    @property
    def name(self) -> str:
        inside = self.path.is_relative_to(NOTEBOOKS)
        return self.path.relative_to(NOTEBOOKS).with_suffix("").as_posix() if inside else self.path.stem

    def read(self) -> dict:
        """The notebook as far as it has come, without papermill's error markers; no cells while papermill writes it."""
        notebook = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        with suppress(OSError, ValueError):
            notebook = json.loads((self.folder / "executed.ipynb").read_text())
        marker = "papermill-error-cell-tag"
        return notebook | {"cells": [c for c in notebook["cells"] if marker not in c["metadata"].get("tags", [])]}

    def begun(self) -> list[dict]:
        """The cells that have begun, as the reader counts them: without the one that papermill injects."""
        own = [cell for cell in self.read()["cells"] if "injected-parameters" not in cell["metadata"].get("tags", [])]
        return [cell for cell in own if cell["metadata"].get("papermill", {}).get("start_time")]

    def __call__(self, stopped: threading.Event) -> None:
        home, log = self.folder / "home", self.folder / "log"
        home.mkdir(parents=True)
        command = [sys.executable, "-c", PAPERMILL, self.path, self.folder / "executed.ipynb", json.dumps(self.quick)]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        here = str(self.folder)  # also for what a killed program leaves behind
        env = os.environ | {MARK: self.mark, "PATH": path, "TMPDIR": here, "JUPYTER_RUNTIME_DIR": here}
        shape = f"{self.name:24} cell {{n_fmt}}/{{total_fmt}} {{elapsed}}"
        bar = tqdm(total=self.cells, bar_format=shape, leave=False, disable=not sys.stderr.isatty())
        start = moved = told = time.monotonic()
        seen, late = (0, 0), False  # cells begun and ended
        with log.open("w") as file:
            process = subprocess.Popen(command, cwd=home, env=env, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
            while process.poll() is None and not stopped.wait(0.5):
                cells, now = self.begun(), time.monotonic()
                state = len(cells), sum(bool(cell["metadata"]["papermill"]["end_time"]) for cell in cells)
                if cells and state != seen:
                    seen, moved, bar.n = state, now, len(cells)
                    if bar.disable and now - told > 5:
                        told = now
                        print(f"{self.name}: cell {len(cells)}/{self.cells}, {now - start:.0f} s")
                bar.refresh()
                if late := seen[0] > seen[1] and now - moved > self.limit:
                    end(self.mark, spare=process.pid)  # papermill finds its kernel dead, and saves what was printed
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(15)
                    break
            end(self.mark)
            process.wait()
        bar.close()
        self.seconds = time.monotonic() - start
        if process.returncode:
            self.diagnose(late, log.read_text().splitlines())
        if not stopped.is_set():
            tqdm.write(f"{self.name}: {self.result()}, {self.seconds:.0f} s")

    def result(self) -> str:
        return f"FAILED {self.problem.splitlines()[0]}" if self.problem else "ok"

    def diagnose(self, late: bool, log: list[str]) -> None:
        """Tell the failing cell and the last 20 lines of what it printed."""
        cells, full = self.begun(), []
        if shutil.disk_usage(self.folder).free < 2**20:
            full = [f"No space left on device for {self.folder}: make room, or name another disk with TMPDIR"]
        raised = [[o for o in cell.get("outputs", []) if o["output_type"] == "error"] for cell in cells]
        number = next((n for n, errors in enumerate(raised) if errors), len(cells) - 1)
        if number < 0:
            self.problem = "\n".join(["before its first cell", *log[-20:], *full])
            return
        cell, errors = cells[number], raised[number]
        said = printed(cell)
        if errors and errors[0]["ename"] == "LaunchError":  # the cause was printed by the launch before this cell
            launches = [before for before in cells[:number] if "".join(before["source"]).startswith("!torchrun")]
            lines = [line for before in launches[-1:] for line in printed(before)]
            ranks = takewhile(lambda line: not re.match(r"E\d{4} ", line), lines)  # then follows torchrun's own report
            said = [*ranks, errors[0]["evalue"]]
        elif not errors and not late:
            said += log[-1:]  # as when the kernel died
        first, limit = "".join(cell["source"]).split("\n")[0], [f"no end within {self.limit:g} s"] if late else []
        self.place = cell.get("id", "")
        self.problem = "\n".join([f"in cell {number + 1}: {first}", *limit, *said[-20:], *full])


def render(runs: list[Run], site: Path) -> None:
    """One page a notebook, also of one that failed, and an index of lesson, time and result."""
    import nbformat
    from jinja2 import DictLoader
    from nbconvert import HTMLExporter

    loader = DictLoader({"page.html.j2": PAGE})
    exporter = HTMLExporter(extra_loaders=[loader], template_file="page.html.j2", exclude_anchor_links=True)
    rows = ""
    for run in runs:
        notebook, result = nbformat.v4.reads(json.dumps(run.read())), html.escape(run.result())
        page = f"{run.name.replace('/', '-')}.html"
        prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        title = found[1] if (found := re.search(r"^# (.+)", prose, re.MULTILINE)) else run.name
        top = '<a href="index.html">← all lessons · 所有課程</a>'
        if run.problem:
            said = html.escape(run.problem).partition("\n")[2]
            top += f'<p class="failed"><a href="#cell-id={run.place}">{result}</a></p><pre class="failed">{said}</pre>'
        resources = {"metadata": {"name": title}, "head": HEAD, "top": top}
        body, _ = exporter.from_notebook_node(notebook, resources)
        body = re.sub(r'<img [^>]*?alt="([^"]*)"[^>]*?src="http[^>]*>', r"\1", body)  # badges, in words
        write(site / page, re.sub(r'(href="[\w-]+)\.ipynb(["#])', r"\1.html\2", body))
        rows += f'<tr><td><a href="{page}">{html.escape(title)}</a><br><small>{run.name}</small></td>'
        rows += f'<td>{run.seconds:.0f} s</td><td class="{"failed" if run.problem else "ok"}">{result}</td></tr>\n'
    write(site / "index.html", INDEX.replace("HEAD", HEAD).replace("ROWS", rows))


def budget(cells: list[dict], machine: dict, path: Path) -> None:
    """Write how long each launch of the workshop took, and all its other cells, for the run sheet."""
    rows, rest = [], 0.0
    for cell in cells:
        launch = re.match(r"!torchrun .*--nproc-per-node=(\d+).* (\w+)\.py", "".join(cell["source"]))
        seconds = cell["metadata"].get("papermill", {}).get("duration") or 0
        rows += [{"row": f"{launch[2]} on {launch[1]}", "seconds": round(seconds)}] if launch else []
        rest += 0 if launch else seconds
    rows += [{"row": "launches", "seconds": sum(row["seconds"] for row in rows)}]
    rows += [{"row": "other cells", "seconds": round(rest)}]
    write(path, json.dumps({"machine": {"cores": os.cpu_count()} | machine, "rows": rows}, indent=1) + "\n")


def index(cells: list[dict], name: str) -> str:
    """The table from error text to section that a lesson's cell tagged `index` shows, linked to it; "" without one."""
    for cell in cells:
        if "index" in cell["metadata"].get("tags", []):
            table = "".join(next(o["data"]["text/markdown"] for o in cell["outputs"] if "data" in o))
            head, line, *rows = table.strip().splitlines()
            parts = [row.strip("| ").split(" | ") for row in rows]
            linked = [f"| {said} | [{section}]({name}.ipynb) | {remedy} |" for said, section, remedy in parts]
            return "\n".join([head, line, *linked]) + "\n"
    return ""


def bring_back(run: Run) -> None:
    """Put the outputs of a run with default parameters into the committed notebook, with the machine they came from."""
    import nbformat

    from build import keep_outputs

    machine: dict = {"data": "none"}  # unless a program of the lesson says which
    for path in sorted((run.folder / "home").glob("*.json")):
        with suppress(ValueError, AttributeError):  # whatever else a notebook writes as JSON
            found = json.loads(path.read_text()).items()
            machine |= {key: value for key, value in found if key in ("torch", "device", "data")}
    notebook = nbformat.read(run.path, as_version=4)
    notebook.metadata.setdefault("course", nbformat.NotebookNode())
    kept = keep_outputs(nbformat.v4.reads(json.dumps(run.read())), notebook, machine)
    text = nbformat.writes(notebook) + "\n"  # only now, since a path may come in two pieces of a stream
    for place in (run.folder / "home", run.folder, Path(sys.prefix).parent, ROOT):
        text = text.replace(f"{place}/", "")  # tracebacks name files: keep the machine's own folders out
    write(run.path, text)
    if run.name == "solutions/workshop":
        budget(run.begun(), machine, ROOT / "assets" / f"workshop-{os.cpu_count()}-cores.json")
    if table := index(run.begun(), run.path.stem):
        write(ROOT / "assets" / "errors.md", table)
    print(f"{run.name}: outputs of {kept} cells taken")


def choose(names: list[str]) -> dict[Path, dict]:
    """The notebooks that these names begin, as they are on disk; every lesson without names."""
    lessons = sorted(NOTEBOOKS.glob("*.ipynb"))
    known = {path.relative_to(NOTEBOOKS).as_posix(): path for path in [*lessons, *NOTEBOOKS.glob("solutions/*.ipynb")]}
    chosen: dict[Path, dict] = {}
    for name in names or [""]:
        found = [known[key] for key in sorted(known) if key.startswith(name) and key.count("/") == name.count("/")]
        if name.endswith(".ipynb") and Path(name).exists():
            found = [Path(name).resolve()]
        if not found:
            there = ", ".join(path.stem for path in lessons) or "nothing yet (`make build` makes the notebooks)"
            sys.exit(f"run: no lesson begins with “{name}”: there is {there}; solutions/…; or any path to an .ipynb")
        for path in found:
            try:
                chosen[path] = json.loads(path.read_text())
                len(chosen[path]["cells"]), chosen[path]["metadata"].get("course", {}).get("quick")
            except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
                what = f"{type(error).__name__}: {error}"
                sys.exit(f"run: {path} is not a notebook ({what}): make it again with `make build`, or name another")
    return chosen


def stop(number: int, _) -> None:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # clearing up has begun
    raise SystemExit(128 + number)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lessons", nargs="*", help="numbers, beginnings of names, or paths; none: every lesson")
    parser.add_argument("--jobs", type=int, default=2, help="notebooks side by side")
    parser.add_argument("--limit", type=float, default=300, help="seconds that one cell may take")
    parser.add_argument("--site", type=Path, default=ROOT / "build" / "site", help="folder for the rendered pages")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--quick", action="store_true", help="with the small parameters that tests use")
    kind.add_argument("--outputs", action="store_true", help="bring the outputs back into notebooks/")
    args = parser.parse_args()
    try:
        if args.outputs:
            import build  # noqa: F401
        args.site.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=args.site).close()
    except ModuleNotFoundError as missing:
        sys.exit(f"run: --outputs needs {missing.name}, which is not installed here: run `make outputs`")
    except OSError as error:
        sys.exit(f"run: cannot write pages into {args.site} ({error.strerror}): name another folder with --site")

    notebooks, mark, stopped = choose(args.lessons), uuid.uuid4().hex, threading.Event()
    (args.site / "index.html").unlink(missing_ok=True)  # it says ok of another run, and this one may be interrupted
    work, quiet = tempfile.mkdtemp(prefix="course-"), subprocess.DEVNULL
    watch = [sys.executable, __file__, "--guard", mark, work]
    guardian = subprocess.Popen(watch, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    runs = []
    for n, (path, notebook) in enumerate(notebooks.items()):
        quick = notebook["metadata"].get("course", {}).get("quick", {}) if args.quick else {}
        runs.append(Run(path, Path(work, str(n)), f"{mark}-{n}-", args.limit, len(notebook["cells"]), quick))
    pool, width = ThreadPoolExecutor(max(1, args.jobs)), max(len(run.name) for run in runs) + 2
    try:
        list(pool.map(lambda run: run(stopped), runs[::-1]))  # later lessons take longer: so both jobs end together
        print(f"\n{'lesson':{width}}{'seconds':>8}  result")
        for run in runs:
            lines = [run.result(), *run.problem.splitlines()[1:]]
            print(f"{run.name:{width}}{run.seconds:8.0f}  " + f"\n{'':{width + 10}}".join(lines))
        render(runs, args.site)
        for run in runs:
            if args.outputs and not run.problem:
                bring_back(run)
        print(f"\nOpen {args.site / 'index.html'}")
        return 1 if any(run.problem for run in runs) else 0
    except OSError as error:
        place = error.filename or work
        print(f"\nrun: cannot write {place} ({error.strerror}): make room, then run this again", file=sys.stderr)
        return 1
    except SystemExit:
        print("\nrun: interrupted; ending everything that it started", file=sys.stderr)
        raise
    finally:
        stopped.set()
        end(mark)
        pool.shutdown(cancel_futures=True)
        guardian.communicate()  # it removes the folder


if __name__ == "__main__":
    if sys.argv[1:2] == ["--guard"]:
        guard(*sys.argv[2:])
    else:
        sys.stdout.reconfigure(line_buffering=True)
        sys.exit(main())
