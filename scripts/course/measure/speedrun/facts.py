"""What the speed-run is measured on, and where its results are kept."""

import argparse
import json
import os
from pathlib import Path

import torch

from course import ROOT, rooms, same
from course.measure.machine import cpu_model
from course.measure.start import originals

BUILD = ROOT / "build" / "speedrun"


def read(name: str) -> dict:
    path = BUILD / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def write(name: str, part: dict) -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / f"{name}.json").write_text(json.dumps(part, indent=1) + "\n")


def rates() -> dict[str, float]:
    """10⁹ operations a second of all cores, or of the GPU, in the formats that the course uses."""
    dtypes = rooms.load("dtypes")
    devices = rooms.load("devices")
    place = devices.here()
    has = dtypes.units(place.device)
    size = 4096 if place.device.type == "cuda" else 1536
    best, reason = dtypes.best_dtype(has)
    dtypes.FORMATS = {name: dtypes.FORMATS[name] for name in {"fp32", best}}
    facts = {"format": best, "reason": reason}
    for name, numbers in dtypes.multiply(size, place).items():
        facts[name] = round(2 * size**3 / min(numbers["seconds"]) / 1e9)
    return facts


def about(args: argparse.Namespace) -> dict:
    """What is measured on, and on which pictures."""
    devices = rooms.load("devices")
    facts = {"cores": os.cpu_count(), "torch": torch.__version__}
    device = devices.here().device
    facts["device"] = devices.device_name(device)
    if device.type == "cpu" and cpu_model():
        facts["device"] += f", model {cpu_model()}"
    source = "generated pictures"
    if args.data:
        source = "CIFAR-10" if originals(args.data) else "a copy of CIFAR-10, not its own files"
    return facts | {"data": args.source or source, "gflops": rates(), "seconds": args.seconds}


def log_of(kind: str, facts: dict, folder: Path) -> Path:
    """Where trainings of this kind are kept: another file for other pictures, another machine,
    another torch, or other programs in `folder`, so that none is taken for one of these.
    """
    names = ("sprint.py", "sprinter.py", "ingredients.py", "clocked.py", "loader.py", "model.py")
    made_of = [facts[name] for name in ("data", "torch", "device")] + [ranks()]
    made_of += [(folder / name).read_text() for name in names]
    mark = same.letters(json.dumps(made_of), 8)
    return BUILD / f"{kind}-{mark}.jsonl"


def told(facts: dict) -> str:
    speeds = {name: value for name, value in facts["gflops"].items() if type(value) is int}
    speed = ", ".join(f"{name} {value:,}" for name, value in speeds.items())
    where = f"{facts['device']}, torch {facts['torch']}"
    choice = f"{facts['gflops']['format']}: {facts['gflops']['reason']}"
    return f"{where}\n10⁹ operations a second: {speed}\n{choice}"


def ranks() -> int:
    return torch.cuda.device_count() or 2
