"""A training on two ranks that loses a rank, or torchrun's agent, several times in a row.

It is taken up until it ends. Only steps since the last checkpoint may be done again, and its losses
must be those of a run that was never interrupted, bit for bit.
"""

import json
import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from faults_processes import Lost, demand, end, gone, marked, start, still, wait

from course import rooms
from course.measure.start import torchrun

EVERY = 5  # steps from save to save


def signal_all(processes: Iterable[int], number: int) -> None:
    """Send a signal to each process that is not over."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


class Training:
    """resume.py on two ranks, hit and taken up until it has ended."""

    def __init__(self, folder: Path, mark: str, chance: random.Random):
        self.folder = folder
        self.mark = mark
        self.chance = chance
        self.agent: subprocess.Popen | None = None  # torchrun
        self.hit: set[int] = set()  # ranks that we met
        self.unhurt: set[int] = set()  # ranks that went on in spite of us
        self.kept = 0  # step of the newest checkpoint
        folder.mkdir(parents=True)

    def begin(self, pause: float = 0.03) -> None:
        """Launch it, or launch it again; nothing while torchrun has a restart left."""
        if self.agent and self.agent.poll() is None:
            return
        command = [*torchrun(2), "--max-restarts=2"]
        command += ["--shutdown-timeout=5"]  # told to end, a rank has 5 s, and not the default 30
        command += [rooms.program("resume"), "--epochs=10", f"--every={EVERY}", f"--pause={pause}"]
        if self.agent:
            command.append("--go-on")
        # Each life gets a store of its own, as lesson 11 does: else a rank may be given the address
        # of a dead one.
        settings = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "PYTHONPATH": rooms.python_path()}
        self.agent = start(command, self.folder, self.mark, **settings)

    def over(self) -> bool:
        """Whether torchrun has ended."""
        return self.agent.poll() is not None

    def ranks(self) -> dict[int, int]:
        """Rank → process id in the present life; empty until both are there."""
        living = {}
        for process, environment in marked(self.mark).items():
            if "RANK" in environment and process not in self.hit:
                living[int(environment["RANK"])] = process
        return living if len(living) == 2 else {}

    def steps(self, process: int | None = None) -> list[int]:
        """The steps that rank 0 has logged, in all its lives or as this process."""
        path = self.folder / "run" / "log"
        text = path.read_text() if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]  # without a line that is being written
        lines = [json.loads(line) for line in whole.splitlines()]
        return [line["step"] for line in lines if process in (None, line["process"])]

    def saving(self, rank: int, process: int) -> bool:
        """Stop a rank in the middle of a save, its half-written file before us."""
        halves = list((self.folder / "run").glob(f"*rank-{rank}*.part"))
        if halves:
            os.kill(process, signal.SIGSTOP)
            if halves[0].exists():
                return True
            os.kill(process, signal.SIGCONT)
        return False

    def approach(self, target: str, when: float, victim: int) -> int | None:
        """Wait until a life begins (`when` below 0.2), trains (below 0.6) or saves.

        The process that is stopped in the middle of its save, if any. Lost if a life does not begin
        where the newest checkpoint ends.
        """
        if target == "agent" and when < 0.2:
            wait(self.over, self.chance.uniform(0, 6))
            return None
        ranks = wait(lambda: self.over() or self.ranks(), 60)
        if when < 0.2:
            wait(self.over, self.chance.uniform(0, 4))
            return None
        if self.over():
            return None
        demand(ranks, "no two ranks within 60 s")
        wait(lambda: self.over() or self.steps(ranks[0]), 60)
        first = next(iter(self.steps(ranks[0])), None)
        right = self.over() or ranks[0] in self.unhurt or first == self.kept + 1
        demand(right, f"went on with step {first}, not {self.kept + 1}")
        if when < 0.6:
            wait(self.over, self.chance.uniform(0, 0.8))
            return None
        caught = wait(lambda: self.over() or self.saving(victim, ranks[victim]), 20, 0.0005)
        return ranks[victim] if caught and not self.over() else None

    def strike(self, target: str, number: int) -> bool:
        """Send the signal at some moment; False where the life ended before that."""
        when = self.chance.random()
        victim = self.chance.randrange(2)
        held = self.approach(target, when, victim)
        if self.over():
            return False
        ranks = self.ranks()
        if target == "rank" and not ranks:
            return False
        self.hit |= set(ranks.values())
        before = len(self.steps(ranks.get(0)))
        signal_all([self.agent.pid if target == "agent" else ranks[victim]], number)
        if held:
            signal_all([held], signal.SIGCONT)
        try:
            gone(self.mark, None if target == "agent" else ranks.values())
        except Lost:
            # Python drops an interrupt that meets a destructor or a callback: then this life trains
            # on. If it halts later, `finish` finds that.
            if (target, number) != ("rank", signal.SIGINT):
                raise
            if not wait(lambda: len(self.steps(ranks[0])) > before + 20, 20):
                raise
            self.hit -= set(ranks.values())
            self.unhurt |= set(ranks.values())
        # A process that is ending has no environment left, and is not over yet; torchrun may have a
        # restart left.
        wait(lambda: self.over() or (target == "rank" and self.ranks()), 60)
        return True

    def inspect(self) -> None:
        """Lost unless all checkpoints are whole, and the newest is as new as the log makes it.

        The newest that both ranks hold, that is. A life may train again by now. It stands still
        while we look, and what it has done does not count.
        """
        from checkpoint import newest, usable

        ranks = self.ranks()
        refused = []
        try:
            signal_all(ranks.values(), signal.SIGSTOP)
            wait(lambda: all(map(still, ranks.values())), 5)  # a signal takes its time
            every = self.steps()
            now = self.steps(ranks.get(0, 0))
            folder = self.folder / "run"
            chosen = newest([usable(folder, rank, 2, refused.append) for rank in (0, 1)])
        finally:
            signal_all(ranks.values(), signal.SIGCONT)
        demand(not refused, f"a save is not atomic: {refused[:1]}")
        past = every[: len(every) - len(now)]
        due = (max(past, default=1) - 1) // EVERY * EVERY
        kept = chosen[0] if chosen else 0
        if now:
            kept = min(kept, now[0] - 1)
        newest_is_due = kept >= max(due, self.kept)
        demand(newest_is_due, f"the newest checkpoint is of step {kept}, where {due} was saved")
        self.kept = kept

    def finish(self, pause: float = 0.03) -> dict:
        """Let it end; what it reports."""
        self.begin(pause)
        wait(self.over, 120)
        demand(self.agent.poll() == 0, f"did not end well: exit code {self.agent.poll()}")
        gone(self.mark)
        results = json.loads((self.folder / "resume.json").read_text())
        unmet = {life["process"] for life in results["lives"]} - self.hit
        demand(len(unmet) <= 1, "a life ended though nothing hit it")
        return results

    def last_words(self) -> str:
        """The last lines of what torchrun and its ranks have said."""
        lines = (self.folder / "said").read_text(errors="replace").splitlines()
        return "\n".join(lines[-12:])


def train(
    kind: str,
    chance: random.Random,
    tries: int,
    folder: Path,
    mark: str,
    tick: Callable[[], object],
    whole: list[float],
) -> list[str]:
    """Hit trainings so often in all; for each try nothing, or what was lost.

    `whole` has the losses of a run never interrupted; `tick` is called after each try.
    """
    target, name = kind.split()
    verdicts: list[str] = []
    while len(verdicts) < tries:
        training = Training(folder / str(len(verdicts)), mark, chance)
        before = len(verdicts)
        try:
            while len(verdicts) < tries and (training.agent is None or training.agent.poll() != 0):
                training.begin()
                if training.strike(target, signal.Signals[name]):
                    verdicts.append("")
                    tick()
                    training.inspect()
            demand(len(verdicts) > before, "the training ended before it was hit")
            same = training.finish()["losses"] == whole
            demand(same, "the losses differ from those of a run never interrupted")
        except Exception as error:
            # Found after the last hit, so it is counted there.
            problem = f"{type(error).__name__}: {error}\n{training.last_words()}"
            verdicts[max(before, len(verdicts) - 1) :] = [problem]
            end(mark)
    return verdicts
