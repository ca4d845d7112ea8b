"""How far a run of many notebooks is: a bar on a terminal, in a file a line now and then."""

import sys
import time
from collections.abc import Sequence

from tqdm import tqdm

from course.run.notebook import Run

EVERY = 10.0  # seconds, in a file


def minutes(seconds: float) -> str:
    """A time to come, as "7 minutes"."""
    whole = round(seconds / 60)
    if whole < 1:
        return "less than a minute"
    return "1 minute" if whole == 1 else f"{whole} minutes"


class Bar:
    """The line for these runs, of which `jobs` go on side by side."""

    def __init__(self, runs: Sequence[Run], jobs: int):
        self.runs = runs
        self.jobs = jobs
        self.ended: list[Run] = []
        self.began = time.monotonic()
        self.told = self.began
        self.terminal = sys.stderr.isatty()
        self.tqdm = tqdm(
            total=sum(sum(run.cells) for run in runs),
            bar_format="{percentage:3.0f}%|{bar:20}| {desc}",
            leave=False,
            disable=not self.terminal,
        )

    def left(self, done: float, total: float) -> float:
        """Seconds to come: at the pace so far, but at the expected one when little is done."""
        passed = time.monotonic() - self.began
        rest = total - done
        if passed < 30 or done < total / 50:
            return rest / self.jobs
        return rest / done * passed

    def line(self, done: float, total: float) -> str:
        """What is done, what runs, how long it will take."""
        running = [run for run in self.runs if run.begun and run not in self.ended]
        places = [f"{run.name} {run.begun}/{len(run.cells)}" for run in running]
        left = minutes(self.left(done, total))
        return f"{len(self.ended)} of {len(self.runs)}, {left} left; {', '.join(places)}"

    def show(self) -> None:
        now = time.monotonic()
        if not self.terminal and now - self.told < EVERY:
            return
        self.told = now
        total = sum(sum(run.cells) for run in self.runs)
        done = sum(sum(run.cells) if run in self.ended else run.done for run in self.runs)
        line = self.line(done, total)
        if self.terminal:
            self.tqdm.n = done
            self.tqdm.set_description_str(line, refresh=False)
            self.tqdm.refresh()
        else:
            print(line)

    def close(self) -> None:
        self.tqdm.close()
