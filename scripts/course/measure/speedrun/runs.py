"""Trainings for the speed-run: each is kept in a file as soon as it is over.

So a campaign that was stopped goes on with the training that is missing.
"""

import argparse
import json
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import torch
from tqdm import tqdm

from course import same
from course.measure.machine import device, machine, originals, rates
from course.measure.pairs import orders
from course.measure.start import BUILD, start, torchrun

KEPT = BUILD / "speedrun"
HOURS = 4 * 3600  # seconds that one launch of many trainings may take


def about(args: argparse.Namespace) -> dict:
    """What is measured on, and on which pictures."""
    source = "generated pictures"
    if args.data:
        source = "CIFAR-10" if originals(args.data) else "a copy of CIFAR-10, not its own files"
    pictures = {"data": args.source or source, "gflops": rates(), "seconds": args.seconds}
    return machine() | {"device": device()} | pictures


def told(facts: dict) -> str:
    speeds = {name: value for name, value in facts["gflops"].items() if type(value) is int}
    speed = ", ".join(f"{name} {value:,}" for name, value in speeds.items())
    where = f"{facts['device']}, torch {facts['torch']}"
    choice = f"{facts['gflops']['format']}: {facts['gflops']['reason']}"
    return f"{where}\n10⁹ operations a second: {speed}\n{choice}"


def ranks() -> int:
    return torch.cuda.device_count() or 2


def log_of(kind: str, facts: dict, folder: Path) -> Path:
    """Where trainings of this kind are kept: another file for other pictures, another machine,
    another torch, or other programs in `folder`, so that none is taken for one of these.
    """
    names = ("sprint.py", "sprinter.py", "ingredients.py", "optimizers.py", "clocked.py")
    names += ("loader.py", "model.py")
    made_of = [facts[name] for name in ("data", "torch", "device")] + [ranks()]
    made_of += [(folder / name).read_text() for name in names]
    mark = same.letters(json.dumps(made_of), 8)
    return KEPT / f"{kind}-{mark}.jsonl"


class Runs:
    """Trainings of sprint.py under the same conditions, by their way, as `batches+cycle@0.1:3`."""

    def __init__(self, log: Path, folder: Path, bar: tqdm, *options: object, alone: bool = False):
        self.log = log
        self.folder = folder
        self.bar = bar
        self.options = options
        self.alone = alone  # each training in a launch of its own
        self.log.parent.mkdir(parents=True, exist_ok=True)

    def done(self) -> dict[str, dict]:
        """All trainings that are over. A line that was broken off does not count."""
        runs = {}
        text = self.log.read_text() if self.log.exists() else ""
        for line in text.splitlines():
            with suppress(ValueError):
                run = json.loads(line)
                runs[run["way"]] = run
        return runs

    def make(self, ways: list[str], together: int = 1) -> list[dict]:
        """The results of these ways, in this order; only those that are missing are trained, and
        of so many that belong together all, if one is missing: a pair stands side by side.
        """
        done = self.done()
        missing = []
        for first in range(0, len(ways), together):
            part = ways[first : first + together]
            if any(way not in done for way in part):
                missing += part
        self.bar.update(len(ways) - len(missing))
        groups = [[way] for way in missing]  # both sides of a pair, one right after the other
        if missing and not self.alone and not any("compile" in way for way in missing):
            groups = [missing]
        for group in groups:
            self.launch(group)
            self.bar.update(len(group))
        done = self.done()
        return [done[way] for way in ways]

    def pairs(self, sides: list[str], seeds: list[int]) -> list[list[dict]]:
        """The results of both sides for each seed; which side is trained first is drawn anew."""
        ways = []
        for seed, order in zip(seeds, orders(sides, len(seeds), sum(seeds)), strict=True):
            ways += [f"{way}:{seed}" for way in order]
        results = dict(zip(ways, self.make(ways, together=2), strict=True))
        return [[results[f"{way}:{seed}"] for way in sides] for seed in seeds]

    def launch(self, ways: list[str]) -> None:
        """One launch that makes these trainings and adds a line for each to the log."""
        if self.log.exists() and not self.log.read_text().endswith("\n"):
            with self.log.open("a") as file:
                file.write("\n")  # behind a line that was broken off
        command = [*self.options, "--lines", self.log.resolve(), "--ways", *ways]
        if len(ways) > 1:
            # The first training does not pay for what happens once in a process.
            command += ["--settle", 1]
        self.sprint(command, self.cache(ways[0]))
        for left in self.folder.glob("cold-*"):
            shutil.rmtree(left)

    def cache(self, way: str) -> Path:
        """Where compiled code is kept: in a new folder, or, warm, in one where it is already."""
        if "compile" not in way:
            return self.folder / "compiled"
        if "warm" not in way:
            return Path(tempfile.mkdtemp(prefix="cold-", dir=self.folder))
        recipe = way.partition("@")[0]
        kept = self.folder / f"warm-{recipe}"
        if not kept.exists():
            command = ["--seconds", 1, "--ways", way]
            if "sizes" in recipe:  # the small pictures come first: and then the large ones
                command.append(way.replace("+sizes", ""))
            self.sprint(command, kept)
        return kept

    def sprint(self, command: list[object], cache: Path) -> None:
        settings = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": str(cache)}
        line = [*torchrun(ranks()), "sprint.py", *command]
        start(self.folder, *line, limit=HOURS, **settings)
