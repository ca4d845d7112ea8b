"""Trainings for the speed-run: each is kept in a file as soon as it is over.

So a campaign that was stopped goes on with the training that is missing.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tqdm import tqdm

from course import rooms
from course.lesson import solve


class Failed(Exception):
    """A launch did not do its work: its command, and what it printed."""


def programs(folder: Path, data: Path | None) -> Path:
    """The lessons' programs side by side, solved; `data` is a folder with CIFAR-10, or pictures are
    made.
    """
    folder.mkdir(parents=True)
    for program in rooms.programs():
        (folder / program.name).write_text(solve(program.read_text(), True, program.name) + "\n")
    if data:
        (folder / "data").symlink_to(data.resolve())
    else:
        subprocess.run([sys.executable, "cifar10.py"], cwd=folder, check=True, capture_output=True)
    return folder


def torchrun(ranks: int) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*launcher, f"--nproc-per-node={ranks}"]


class Runs:
    """Trainings of sprint.py under the same conditions, by their way, as `batches+cycle@0.1:3`."""

    def __init__(self, log: Path, folder: Path, ranks: int, *options: object, alone: bool = False):
        self.log = log
        self.folder = folder
        self.ranks = ranks
        self.options = [str(option) for option in options]
        self.alone = alone  # each training in a launch of its own
        self.bar: tqdm | None = None
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
        if self.bar is not None:
            self.bar.update(len(ways) - len(missing))
        if self.alone or any("compile" in way for way in missing):
            groups = [[way] for way in missing]  # both sides of a pair, one right after the other
        else:
            groups = [missing] if missing else []
        for group in groups:
            self.launch(group)
        done = self.done()
        return [done[way] for way in ways]

    def cache(self, way: str) -> Path:
        """Where compiled code is kept: in a new folder, or, warm, in one where it is already."""
        if "compile" not in way:
            return self.folder / "compiled"
        if "warm" not in way:
            return Path(tempfile.mkdtemp(prefix="cold-", dir=self.folder))
        recipe = way.partition("@")[0]
        kept = self.folder / f"warm-{recipe}"
        if not kept.exists():
            command = ["sprint.py", "--seconds", "1", "--ways", way]
            if "sizes" in recipe:  # the small pictures come first: and then the large ones
                command.append(way.replace("+sizes", ""))
            self.start(command, kept)
        return kept

    def launch(self, ways: list[str]) -> None:
        """One launch that makes these trainings and adds a line for each to the log."""
        if self.log.exists() and not self.log.read_text().endswith("\n"):
            with self.log.open("a") as file:
                file.write("\n")  # behind a line that was broken off
        command = ["sprint.py", *self.options, "--lines", str(self.log.resolve()), "--ways", *ways]
        if len(ways) > 1:
            # The first training does not pay for what happens once in a process.
            command += ["--settle", "1"]
        self.start(command, self.cache(ways[0]))
        if "compile" in ways[0] and "warm" not in ways[0]:
            for left in self.folder.glob("cold-*"):
                shutil.rmtree(left)

    def start(self, command: list[str], cache: Path) -> None:
        settings = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": str(cache)}
        before = len(self.done())
        with tempfile.TemporaryFile("w+") as printed:
            begun = subprocess.Popen(
                [*torchrun(self.ranks), *command],
                cwd=self.folder,
                env=os.environ | settings,
                stdout=printed,
                stderr=subprocess.STDOUT,
            )
            while begun.poll() is None:
                time.sleep(0.2)
                over = len(self.done())
                if self.bar is not None and over > before:
                    self.bar.update(over - before)
                before = over
            if begun.returncode != 0:
                printed.seek(0)
                raise Failed(f"{' '.join(command)} failed:\n{printed.read()[-3000:]}")
        if self.bar is not None:
            self.bar.update(len(self.done()) - before)
