"""What bench.py measures, part by part.

Each part starts the programs that measure something, and makes rows of their results.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import backend_build
import rooms
from bench_table import over, row
from build_grammar import solve

SCRIPTS = Path(__file__).resolve().parent
ROOT = SCRIPTS.parent
BUILD = ROOT / "build"
BIN = Path(sys.executable).parent
STEPS = SCRIPTS / "bench_steps.py"
TUTORIAL = SCRIPTS / "bench_network.py"

Rows = list[dict]


class Failed(Exception):
    """A program did not do its work: its name, and what it printed."""


def start(folder: Path, *command: object, limit: float = 600, **environment: str) -> None:
    """Run a command in `folder` to its end. Failed if it fails, or takes longer than `limit` s."""
    words = [str(word) for word in command]
    line = " ".join(words)
    options = {"cwd": folder, "env": os.environ | environment}
    try:
        done = subprocess.run(words, **options, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise Failed(f"{line} was not through after {limit:g} s") from None
    if done.returncode != 0:
        raise Failed(f"{line} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def launch(
    folder: Path,
    ranks: int,
    program: object,
    *arguments: object,
    python: Path = BIN / "python",
    limit: float = 600,
    **environment: str,
) -> dict:
    """The results of a program on so many ranks, one thread each."""
    torchrun = [python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    results = folder / f"{Path(program).stem}.json"
    results.unlink(missing_ok=True)
    environment = {"OMP_NUM_THREADS": "1", **environment}
    start(folder, *torchrun, program, *arguments, limit=limit, **environment)
    return json.loads(results.read_text())


def launch_own(folder: Path, ranks: int, program: Path, *arguments: object, **more) -> dict:
    """`launch` for a program of the bench itself, which imports what the lessons teach."""
    return launch(folder, ranks, program, *arguments, PYTHONPATH=rooms.python_path(), **more)


def lessons(folder: Path, data: Path | None = None, network: Path | None = None) -> Path:
    """The lessons' programs side by side in a new folder, solved, as a notebook writes them.

    `data`: a folder with CIFAR-10, for them to find; `network`: a program in place of model.py.
    """
    folder.mkdir()
    for program in rooms.programs():
        (folder / program.name).write_text(solve(program.read_text(), True, program.name) + "\n")
    if network:
        (folder / "model.py").write_text(network.read_text())
    if data:
        (folder / "data").symlink_to(data.resolve())
    return folder


def quarters(ratios: list[float]) -> list[float]:
    """The middle half of many short rounds: a pause of the machine spoils single ones."""
    ordered = sorted(ratios)
    return ordered[len(ordered) // 4 : -(len(ordered) // 4) or None]


def ranks(args: argparse.Namespace, work: Path) -> Rows:
    def paces(network: str, *ways: str) -> dict[str, list[float]]:
        options = ["--rounds", args.rounds, "--ways", *ways]
        return launch_own(work, 2, STEPS, "ranks", network, *options)

    pace = paces("ResNet", "lesson", "silent", "alone", "two threads")
    ours = pace["lesson"]
    rows = [
        row("DDP, two ranks / two that never talk", over(ours, pace["silent"])),
        row("DDP, two ranks / one rank, one thread", over(ours, pace["alone"])),
        row("DDP, two ranks / one process, two threads", over(ours, pace["two threads"])),
        row("two that never talk / one rank, one thread", over(pace["silent"], pace["alone"])),
    ]
    for network, aim in (("ResNet-9", "≥ 0.97"), ("small CNN", "≥ 0.93")):
        pace = paces(network, "stock", "tuned", "silent")
        silent = pace["silent"]
        rows.append(row(f"{network}, stock DDP / two that never talk", over(pace["stock"], silent)))
        tuned = over(pace["tuned"], silent)
        rows.append(row(f"{network}, tuned DDP / two that never talk", tuned, aim))
    return rows


def buckets(args: argparse.Namespace, work: Path) -> Rows:
    folder = lessons(work / "buckets")
    ratios = []
    for _ in range(args.rounds):
        results = launch(folder, 2, "bucket.py", "--buckets", 25)
        ratios.append(median(results["ratios"]))
    return [row("our bucketed DDP / torch's, time of a step", ratios, "≤ 1.05")]


def transport(args: argparse.Namespace, work: Path) -> Rows:
    folder = lessons(work / "transport")
    runs = [launch(folder, 2, "transport.py")["ratios"] for _ in range(args.rounds)]
    rows = []
    for mb, aim in (("1", "≥ 10"), ("25", "≥ 3")):
        ratios = [median(run[mb]) for run in runs]
        rows.append(row(f"shared memory / gloo, {mb} MB", ratios, aim))
    return rows


def backend(args: argparse.Namespace, work: Path) -> Rows:
    """Lesson 21's backend in C++: its all-reduce, and DDP's steps on it."""
    library = backend_build.build("nearby")
    if library is None:
        raise Failed("there is no g++ here, so lesson 21's backend cannot be built")
    folder = lessons(work / "backend")
    sizes = {"1 MB": 1_000_000, "25 MB": 25_000_000}
    options = ["--rounds", 12 * args.rounds, "--sizes", *sizes.values()]
    beside = {"PYTHONPATH": str(library.parent)}
    times = launch(folder, 2, "speeds.py", *options, **beside)["times"]
    rows = []
    for size, gloo_aim in (("1 MB", "≥ 10"), ("25 MB", "≥ 3")):
        ways = times[str(sizes[size])]
        least = min(ways["gloo"]) / min(ways["ours"])
        note = f"quarters of {len(ways['ours'])} rounds"
        ratios = quarters(over(ways["gloo"], ways["ours"]))
        rows.append(row(f"gloo / C++ all-reduce, {size}", ratios, gloo_aim, note))
        rows.append(row(f"gloo / C++ all-reduce, {size}, fastest of each", [least], "≥ 5"))
        ratios = quarters(over(ways["ours"], ways["memcpy"]))
        rows.append(row(f"C++ all-reduce / one memcpy, {size}", ratios, "≤ 2", note))
    program = SCRIPTS / "bench_backend.py"
    path = os.pathsep.join([str(library.parent), rooms.python_path()])
    for network, aim in (("MLP", "≥ 0.85"), ("ResNet-9", "≥ 0.97"), ("small CNN", "≥ 0.93")):
        options = [network, "--rounds", 12 * args.rounds]
        times = launch(work, 2, program, *options, PYTHONPATH=path)["seconds"]
        for way, wanted in (("gloo", ""), ("C++", aim)):
            name = f"{network}, DDP on {way} / two that never talk"
            ratios = quarters(over(times["silent"], times[way]))
            rows.append(row(name, ratios, wanted))
    return rows


def loader(args: argparse.Namespace, work: Path) -> Rows:
    folder = lessons(work / "loader")
    launch(folder, 1, "cifar10.py")
    runs = [launch(folder, 1, "loader.py") for _ in range(args.rounds)]
    ratios = [run["batched"] / run["single"] for run in runs]
    return [row("our loader / torchvision, one by one", ratios, "≥ 4")]


def layout(args: argparse.Namespace, work: Path) -> Rows:
    results = launch_own(work, 1, STEPS, "layouts", "--rounds", args.rounds)
    name = "channels last (this CPU has no bf16 instructions)"
    if results["bf16"]:
        name = "channels last, bf16"
    return [row(f"{name} / plain fp32", over(results["tuned"], results["plain"]))]


def recipe(args: argparse.Namespace, work: Path) -> Rows:
    pace = launch_own(work, 2, STEPS, "recipes", "--rounds", args.rounds)
    ratios = over(pace["recipe"], pace["textbook"])
    note = "both fp32: this CPU has no bf16 instructions"
    aim = "≥ 1.6"
    if pace["bf16"]:
        note = "in bf16"
        aim = "≥ 2.4"
    return [
        row("recipe / textbook DDP, fp32", ratios, aim, note),
        row("recipe, compiled / not compiled", over(pace["compiled"], pace["recipe"])),
    ]


def compiling(args: argparse.Namespace, work: Path) -> Rows:
    cold_seconds = []
    warm_seconds = []
    paces = []
    for number in range(args.rounds):
        # The second run finds in the cache what the first one compiled.
        cache = {"TORCHINDUCTOR_CACHE_DIR": str(work / f"compiled-{number}")}
        cold = launch_own(work, 1, STEPS, "compiled", **cache)
        warm = launch_own(work, 1, STEPS, "compiled", **cache)
        if not cold["misses"] or warm["misses"]:
            lacking = f"{cold['misses']} cold, {warm['misses']} warm"
            raise Failed(f"graphs not in the cache: {lacking}")
        cold_seconds.append(cold["first"])
        warm_seconds.append(warm["first"])
        paces.append(warm["pace"])
    ratios = over(warm_seconds, cold_seconds)
    note = f"{median(warm_seconds):.1f} s / {median(cold_seconds):.1f} s"
    return [
        row("compile, first step: warm cache / cold", ratios, "≤ 0.143", note),
        row("compiled / eager, both NCHW fp32", paces, "≥ 1.3"),
    ]


def accumulation(args: argparse.Namespace, work: Path) -> Rows:
    folder = lessons(work / "accumulation")
    ratios = []
    for _ in range(args.rounds):
        results = launch(folder, 2, "accumulate.py")["rows"]
        times = {result["way"]: result["seconds"] for result in results if result["parts"] == 4}
        ratios.append(median(over(times["every part"], times["no_sync"])))
    return [row("four accumulation steps, no_sync / without", ratios, "≥ 1.45")]


def frameworks_python() -> Path:
    """The Python of build/bench-venv: the frameworks' newest versions on the torch of our own."""
    venv = BUILD / "bench-venv"
    python = venv / "bin" / "python"
    if not python.exists():
        start(ROOT, sys.executable, "-m", "venv", venv)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(venv)}))
    (packages / "course.pth").write_text(sysconfig.get_path("purelib"))  # torch, above all
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
    start(ROOT, *pip, "accelerate", "lightning", "pytorch-ignite")
    return python


def frameworks(args: argparse.Namespace, work: Path) -> Rows:
    program = SCRIPTS / "bench_frameworks.py"
    results = launch_own(work, 2, program, "--rounds", args.rounds, python=frameworks_python())
    seconds = results["seconds"]
    our_median = 1e6 * median(seconds["stock"])
    aims = {"accelerate": "≤ 0.90", "lightning": "≤ 0.80", "pytorch-ignite": "≤ 1", "fabric": "≤ 1"}
    gained = over(seconds["tuned"], seconds["stock"])
    rows = [row("our loop, tuned DDP / stock DDP, time of a step", gained)]
    for name, aim in aims.items():
        their_median = 1e6 * median(seconds[name])
        times = f"{our_median:.0f} µs / {their_median:.0f} µs"
        note = f"{times}, version {results['versions'][name]}"
        ratios = over(seconds["stock"], seconds[name])
        rows.append(row(f"our loop, stock DDP / {name}, time of a step", ratios, aim, note))
    return rows


def train(folder: Path, budget: float, program: str, *arguments: object) -> tuple[float, str]:
    """Two ranks of a program for about `budget` seconds of training.

    Its test error, and how many pictures were right after how much training, in words.
    """
    launch(folder, 1, "cifar10.py")
    # A short training tells the pace, and the pace tells how much fits into the budget.
    trial = launch(folder, 2, program, *arguments, "--epochs", 1, "--train-size", 6400)
    pictures = budget * trial["pace"]
    epochs = max(1, round(pictures / 50_000 + 0.5))
    size = min(50_000, int(pictures / epochs))
    share = ["--epochs", epochs, "--train-size", size]
    results = launch(folder, 2, program, *arguments, *share, limit=600 + 3 * budget)
    scores = results["curve"][-1] if "curve" in results else results
    right = scores["accuracy"]
    seconds = epochs * size / results["pace"]
    training = f"{epochs} epochs of {size:,} pictures in {seconds:.0f} s"
    return 1 - right, f"{right:.1%} right after {training}"


def originals(data: Path) -> bool:
    """Whether the folder holds CIFAR-10's own files, not the same pictures in another form."""
    from torchvision.datasets import CIFAR10  # it takes long, and only this part needs it

    folder = data / CIFAR10.base_folder
    for name, md5 in CIFAR10.train_list + CIFAR10.test_list:
        if hashlib.md5((folder / name).read_bytes()).hexdigest() != md5:
            return False
    return True


def accuracy(args: argparse.Namespace, work: Path) -> Rows:
    # Half as wide as the lesson's: more pictures are worth more here than more channels.
    folder = lessons(work / "ours", args.data)
    ours, note = train(folder, args.budget, "fast.py", "--widths", "16,32,64")
    # Without BatchNorm it needs a lower learning rate: 0.06 is better than 0.03 and our 0.2.
    folder = lessons(work / "tutorial", args.data, TUTORIAL)
    theirs, their_note = train(folder, args.budget, "ddp.py", "--lr", 0.06)
    name = "test error of our recipe / of the tutorials' network"
    # Neither program sets pictures aside for validation: both choices rest on the test pictures.
    chosen = "our widths and their learning rate were chosen by test accuracy"
    note = f"{note}; theirs {their_note}; {chosen}; measured once"
    if not originals(args.data):
        note += "; a copy of CIFAR-10, not its own files"
    return [row(name, [ours / theirs], "≤ 0.35", note)]


def course(args: argparse.Namespace, work: Path) -> Rows:
    path = os.environ.get("PATH", os.defpath)
    torchrun = {"PATH": f"{BIN}{os.pathsep}{path}"}  # the notebooks call it by its name
    begin = time.perf_counter()
    start(ROOT, sys.executable, SCRIPTS / "run.py", "--site", work / "site", limit=10_800)
    between = time.perf_counter()
    papermill = [BIN / "papermill", "--kernel", "python3"]
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        folder = work / notebook.stem
        folder.mkdir()
        executed = folder / "executed.ipynb"
        start(folder, *papermill, notebook, executed, limit=3600, **torchrun)
    ours = between - begin
    plain = time.perf_counter() - between
    note = f"{ours:.0f} s / {plain:.0f} s, measured once"
    name = "the whole course, make run / plain papermill"
    return [row(name, [ours / plain], "≤ 0.65", note)]


PARTS: dict[str, Callable[[argparse.Namespace, Path], Rows]] = {
    "ranks": ranks,
    "buckets": buckets,
    "transport": transport,
    "backend": backend,
    "loader": loader,
    "layout": layout,
    "recipe": recipe,
    "compile": compiling,
    "accumulation": accumulation,
    "frameworks": frameworks,  # these three only when they are asked for
    "accuracy": accuracy,
    "course": course,
}
