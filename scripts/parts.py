"""What bench.py measures, part by part: each starts the programs that report it, and makes rows of their results."""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from ratios import over, row

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS, BUILD, BIN = ROOT / "scripts", ROOT / "build", Path(sys.executable).parent

TUTORIAL = '''"""The network that beginner tutorials train on CIFAR-10: two convolutions, three linear layers."""
from torch import nn

class ResNet(nn.Sequential):
    def __init__(self):
        convolutions = [nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)]
        linear = [nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU()]
        super().__init__(*convolutions, *linear)
        self.head = nn.Linear(84, 10)
'''


class Failed(Exception):
    """A program did not do its work: its name, and what it said."""


def start(folder: Path, *command: object, limit: float = 600, **environment: str) -> None:
    """Run a command in `folder` to its end; Failed when it fails, or is not through after `limit` seconds."""
    words = list(map(str, command))
    try:
        done = subprocess.run(
            words, cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(words)} was not through after {limit:g} s") from None
    if done.returncode:
        raise Failed(f"{' '.join(words)} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def launch(folder: Path, n: int, program: object, *arguments: object, python: Path = BIN / "python", **more) -> dict:
    """The results of a program on n ranks, one thread each."""
    torchrun = [python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n}"]
    results = folder / f"{Path(program).stem}.json"
    results.unlink(missing_ok=True)
    start(folder, *torchrun, program, *arguments, **{"OMP_NUM_THREADS": "1"} | more)
    return json.loads(results.read_text())


def lessons(folder: Path, data: Path | None = None, network: str | None = None) -> Path:
    """The lessons' programs in a folder of their own, with data, and with another network if one is given."""
    shutil.copytree(SCRIPTS / "lessons", folder, ignore=shutil.ignore_patterns("__pycache__"))
    if network:
        (folder / "model.py").write_text(network)
    if data:
        (folder / "data").symlink_to(data.resolve())
    return folder


def ranks(args: argparse.Namespace, work: Path) -> list[dict]:
    def paces(network: str, *ways: str) -> dict[str, list[float]]:
        return launch(work, 2, SCRIPTS / "paces.py", "ranks", network, "--rounds", args.rounds, "--ways", *ways)

    found = paces("ResNet", "lesson", "silent", "alone", "two threads")
    rows = [
        row("DDP, two ranks / two that never talk", over(found["lesson"], found["silent"])),
        row("DDP, two ranks / one rank, one thread", over(found["lesson"], found["alone"])),
        row("DDP, two ranks / one process, two threads", over(found["lesson"], found["two threads"])),
        row("two that never talk / one rank, one thread", over(found["silent"], found["alone"])),
    ]
    for network, aim in (("ResNet-9", "≥ 0.97"), ("small CNN", "≥ 0.93")):
        found = paces(network, "stock", "tuned", "silent")
        rows.append(row(f"{network}, stock DDP / two that never talk", over(found["stock"], found["silent"])))
        rows.append(row(f"{network}, tuned DDP / two that never talk", over(found["tuned"], found["silent"]), aim))
    return rows


def buckets(args: argparse.Namespace, work: Path) -> list[dict]:
    folder = lessons(work / "buckets")
    ratios = [median(launch(folder, 2, "bucket.py", "--buckets", 25)["ratios"]) for _ in range(args.rounds)]
    return [row("our bucketed DDP / torch's, time of a step", ratios, "≤ 1.05")]


def transport(args: argparse.Namespace, work: Path) -> list[dict]:
    folder = lessons(work / "transport")
    runs = [launch(folder, 2, "transport.py")["ratios"] for _ in range(args.rounds)]
    aims = {"1": "≥ 10", "25": "≥ 3"}
    return [row(f"shared memory / gloo, {mb} MB", [median(one[mb]) for one in runs], aim) for mb, aim in aims.items()]


def loader(args: argparse.Namespace, work: Path) -> list[dict]:
    folder = lessons(work / "loader")
    launch(folder, 1, "cifar10.py")
    runs = [launch(folder, 1, "loader.py") for _ in range(args.rounds)]
    ratios = [one["batched"] / one["single"] for one in runs]
    return [row("our loader / torchvision, one by one", ratios, "≥ 4")]


def layout(args: argparse.Namespace, work: Path) -> list[dict]:
    found = launch(work, 1, SCRIPTS / "paces.py", "layouts", "--rounds", args.rounds)
    name = "channels last, bf16" if found["bf16"] else "channels last (this CPU has no bf16 instructions)"
    return [row(f"{name} / plain fp32", over(found["tuned"], found["plain"]))]


def recipe(args: argparse.Namespace, work: Path) -> list[dict]:
    found = launch(work, 2, SCRIPTS / "paces.py", "recipes", "--rounds", args.rounds)
    note = "in bf16" if found["bf16"] else "both fp32: this CPU has no bf16 instructions"
    aim = "≥ 2.4" if found["bf16"] else "≥ 1.6"
    return [
        row("recipe / textbook DDP, fp32", over(found["recipe"], found["textbook"]), aim, note),
        row("recipe, compiled / not compiled", over(found["compiled"], found["recipe"])),
    ]


def compiling(args: argparse.Namespace, work: Path) -> list[dict]:
    firsts, paces = [], []
    for n in range(args.rounds):
        cache = {"TORCHINDUCTOR_CACHE_DIR": str(work / f"compiled-{n}")}
        cold, warm = (launch(work, 1, SCRIPTS / "paces.py", "compiled", **cache) for _ in range(2))
        if not cold["misses"] or warm["misses"]:
            raise Failed(f"graphs not in the cache: {cold['misses']} cold, {warm['misses']} warm")
        firsts.append((warm["first"], cold["first"]))
        paces.append(warm["pace"])
    note = "{:.1f} s / {:.1f} s".format(*map(median, zip(*firsts, strict=True)))
    first = [warm / cold for warm, cold in firsts]
    return [
        row("compile, first step: warm cache / cold", first, "≤ 0.143", note),
        row("compiled / eager, both NCHW fp32", paces, "≥ 1.3"),
    ]


def accumulation(args: argparse.Namespace, work: Path) -> list[dict]:
    def ratio(rows: list[dict]) -> float:
        took = {one["way"]: one["seconds"] for one in rows if one["parts"] == 4}
        return median(over(took["every part"], took["no_sync"]))

    folder = lessons(work / "accumulation")
    ratios = [ratio(launch(folder, 2, "accumulate.py")["rows"]) for _ in range(args.rounds)]
    return [row("four accumulation steps, no_sync / without", ratios, "≥ 1.45")]


def frameworks(args: argparse.Namespace, work: Path) -> list[dict]:
    python = BUILD / "bench-venv" / "bin" / "python"
    if not python.exists():
        start(ROOT, sys.executable, "-m", "venv", BUILD / "bench-venv")
    borrow = "import site, sys; open(site.getsitepackages()[0] + '/course.pth', 'w').write(sys.argv[1])"
    start(ROOT, python, "-c", borrow, sysconfig.get_path("purelib"))  # torch, above all
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
    start(ROOT, python, *install, "accelerate", "lightning", "pytorch-ignite")
    found = launch(work, 2, SCRIPTS / "frameworks.py", "--rounds", args.rounds, python=python)
    seconds, rows = found["seconds"], []
    aims = {"accelerate": "≤ 0.90", "lightning": "≤ 0.80", "pytorch-ignite": "≤ 1", "fabric": "≤ 1"}
    for name, aim in aims.items():
        ours, theirs = (1e6 * median(seconds[one]) for one in ("ours", name))
        note = f"{ours:.0f} µs / {theirs:.0f} µs, version {found['versions'][name]}"
        rows.append(row(f"our loop / {name}, time of a step", over(seconds["ours"], seconds[name]), aim, note))
    return rows


def train(folder: Path, budget: float, program: str, *arguments: object) -> tuple[float, str]:
    """Two ranks of a program for about `budget` seconds of training: its test error, and what to say of it."""
    launch(folder, 1, "cifar10.py")
    pictures = budget * launch(folder, 2, program, *arguments, "--epochs", 1, "--train-size", 6400)["pace"]
    epochs = max(1, round(pictures / 50_000 + 0.5))
    size = min(50_000, int(pictures / epochs))
    share = "--epochs", epochs, "--train-size", size
    results = launch(folder, 2, program, *arguments, *share, limit=600 + 3 * budget)
    right = results["curve"][-1]["accuracy"] if "curve" in results else results["accuracy"]
    took = f"{epochs} epochs of {size:,} pictures in {epochs * size / results['pace']:.0f} s"
    return 1 - right, f"{right:.1%} right after {took}"


def originals(data: Path) -> bool:
    """Whether the folder holds CIFAR-10's own files, and not the same pictures in another form."""
    from torchvision.datasets import CIFAR10

    folder = data / CIFAR10.base_folder
    lists = CIFAR10.train_list + CIFAR10.test_list
    return all(hashlib.md5((folder / name).read_bytes()).hexdigest() == said for name, said in lists)


def accuracy(args: argparse.Namespace, work: Path) -> list[dict]:
    # Half as wide as the lesson's: seeing more pictures is worth more than seeing them with more channels.
    ours, note = train(lessons(work / "ours", args.data), args.budget, "fast.py", "--widths", "16,32,64", "--flip")
    # Without BatchNorm it needs a lower learning rate: of 0.03, 0.06 and our 0.2 the second is its best.
    theirs, other = train(lessons(work / "tutorial", args.data, TUTORIAL), args.budget, "ddp.py", "--lr", 0.06)
    name = "test error of our recipe / of the tutorials' network"
    copy = "" if originals(args.data) else "; a copy of CIFAR-10, not its own files"
    return [row(name, [ours / theirs], "≤ 0.35", f"{note}; theirs {other}{copy}")]


def course(args: argparse.Namespace, work: Path) -> list[dict]:
    path = {"PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}  # the notebooks call torchrun
    began = time.perf_counter()
    start(ROOT, sys.executable, SCRIPTS / "run.py", "--site", work / "site", limit=10_800)
    between = time.perf_counter()
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        folder = work / notebook.stem
        folder.mkdir()
        start(folder, BIN / "papermill", "--kernel", "python3", notebook, folder / "executed.ipynb", limit=3600, **path)
    took = between - began, time.perf_counter() - between
    note = "{:.0f} s / {:.0f} s, measured once".format(*took)
    return [row("the whole course, make run / plain papermill", [took[0] / took[1]], "≤ 0.65", note)]


PARTS: dict[str, Callable[[argparse.Namespace, Path], list[dict]]] = {
    "ranks": ranks,
    "buckets": buckets,
    "transport": transport,
    "loader": loader,
    "layout": layout,
    "recipe": recipe,
    "compile": compiling,
    "accumulation": accumulation,
    "frameworks": frameworks,  # these three only when they are asked for
    "accuracy": accuracy,
    "course": course,
}
