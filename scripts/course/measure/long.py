"""What the bench measures only when it is asked to: frameworks, trainings, the whole course."""

import argparse
import os
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from course import ROOT
from course.measure.rounds import Part, Ratio, Row, measure
from course.measure.start import BIN, BUILD, LAUNCHED, launch, launch_own, lessons, originals, start

TUTORIAL = LAUNCHED / "network.py"
HELD_OUT = LAUNCHED / "heldout.py"
SEEDS = 3
# Learning rates to choose from, as many for each side. Without BatchNorm lower ones are better.
OUR_RATES = (0.2, 0.4, 0.8)
THEIR_RATES = (0.03, 0.06, 0.12)


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


def frameworks(args: argparse.Namespace, work: Path) -> list[Row]:
    program = LAUNCHED / "frameworks.py"
    python = frameworks_python()

    def run(rounds: int, seed: int) -> dict:
        return launch_own(work, 2, program, "--rounds", rounds, "--seed", seed, python=python)

    aims = {"accelerate": "≤ 0.90", "lightning": "≤ 0.80", "pytorch-ignite": "≤ 1", "fabric": "≤ 1"}
    ratios = [Ratio("our loop, tuned DDP / stock DDP, time of a step", "tuned", "stock")]
    for name, aim in aims.items():
        title = f"our loop, stock DDP / {name}, time of a step"
        ratios.append(Ratio(title, "stock", name, aim=aim))
    part = Part("frameworks", 3, run, ratios, ("stock again", "stock"))
    rounds = measure(part, args.rounds)
    rows = rounds.rows()
    for row, name in zip(rows[1:], aims, strict=False):
        row["note"] = f"version {rounds.facts['versions'][name]}"
    return rows


def once(name: str, ratios: list[float], aim: str, note: str, span: str) -> Row:
    """A row without an interval: there are too few numbers for one."""
    numbers = {"ratio": median(ratios), "low": min(ratios), "high": max(ratios), "span": span}
    more = {"rounds": len(ratios), "seconds": [], "unit": "", "limit": ""}
    return {"row": name, "aim": aim, "note": note} | numbers | more


def share(folder: Path, budget: float, *command: object) -> list[object]:
    """Options that let two ranks train for about `budget` seconds: their pace in a short one."""
    program = str(command[0])
    trial = launch(folder, 2, *command, "--epochs", 1, "--train-size", 6400, results=named(program))
    pictures = budget * trial["pace"]
    epochs = max(1, round(pictures / 45_000 + 0.5))
    size = max(2560, min(45_000, int(pictures / epochs)))
    return ["--epochs", epochs, "--train-size", size]


def named(program: str) -> str:
    """The file with a program's results."""
    return f"{Path(program).stem}.json"


def error(folder: Path, *command: object, program: str, limit: float) -> float:
    """Which part of the pictures two ranks get wrong after a training."""
    results = launch(folder, 2, *command, results=named(program), limit=limit)
    scores = results["curve"][-1] if "curve" in results else results
    return 1 - scores["accuracy"]


def trained(
    folder: Path, budget: float, rates: tuple[float, ...], program: str, *options: object
) -> tuple[list[float], str]:
    """Test errors of three seeds, each after `budget` seconds of training; the learning rate.

    The rate is the best on training pictures that were held out, after a quarter of the time.
    """
    launch(folder, 1, "cifar10.py")
    command = [program, *options]
    quarter = share(folder, budget / 4, *command)
    limit = 600 + 3 * budget
    known = {"program": program, "limit": limit}
    tried = {}
    for rate in rates:
        tried[rate] = error(folder, HELD_OUT, *command, "--lr", rate, *quarter, **known)
    best = min(tried, key=tried.get)
    whole = [*share(folder, budget, *command), "--lr", best]
    errors = []
    for seed in range(SEEDS):
        errors.append(error(folder, *command, *whole, "--seed", seed, **known))
    _, epochs, _, size, *_ = whole
    training = f"{epochs} epochs of {size:,} pictures, learning rate {best:g}"
    return errors, f"{1 - median(errors):.1%} right after {training}"


def accuracy(args: argparse.Namespace, work: Path) -> list[Row]:
    """Both sides train for as many seconds, are tested alike, and choose among as many rates."""
    # Half as wide as the lesson's: more pictures are worth more here than more channels.
    folder = lessons(work / "ours", args.data)
    ours, note = trained(folder, args.budget, OUR_RATES, "fast.py", "--widths", "16,32,64")
    folder = lessons(work / "tutorial", args.data, TUTORIAL)
    theirs, their_note = trained(folder, args.budget, THEIR_RATES, "ddp.py")
    ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
    name = "test error of our recipe / of the tutorials' network"
    seconds = f"{args.budget:g} s of training for each of {SEEDS} seeds"
    note = f"{note}; theirs {their_note}; {seconds}; rates chosen on training pictures held out"
    if not originals(args.data):
        note += "; a copy of CIFAR-10, not its own files"
    return [once(name, ratios, "≤ 0.35", note, "range")]


def course(args: argparse.Namespace, work: Path) -> list[Row]:
    path = os.environ.get("PATH", os.defpath)
    torchrun = {"PATH": f"{BIN}{os.pathsep}{path}"}  # the notebooks call it by its name
    begin = time.perf_counter()
    start(ROOT, sys.executable, "-m", "course.run.notebooks", "--forked", limit=10_800)
    between = time.perf_counter()
    papermill = [BIN / "papermill", "--kernel", "python3"]
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        folder = work / notebook.stem
        folder.mkdir()
        executed = folder / "executed.ipynb"
        start(folder, *papermill, notebook, executed, limit=3600, **torchrun)
    ours = between - begin
    plain = time.perf_counter() - between
    note = f"{ours:.0f} s / {plain:.0f} s"
    name = "the whole course, make run / plain papermill"
    return [once(name, [ours / plain], "≤ 0.60", note, "once")]


LONG: dict[str, Callable[[argparse.Namespace, Path], list[Row]]] = {
    "frameworks": frameworks,
    "accuracy": accuracy,
    "course": course,
}
