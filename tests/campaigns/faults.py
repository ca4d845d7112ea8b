"""Kill what the course runs, at random moments; fill its disks; put rubbish in place of its files. Nothing may be lost.

Run:  python tests/campaigns/faults.py                                  # all of it: more than 200 kills, `make faults`
      python tests/campaigns/faults.py --tries 1                        # a look
      python tests/campaigns/faults.py --seed 7 --only "rank SIGKILL"   # as a lost try says how to repeat it

A training on two ranks loses a rank, or torchrun's agent, several times in a row, and is taken up until it ends: only
steps since the last checkpoint may be done again, and its losses must be those of a run never interrupted, bit for bit.
A notebook loses its kernel, or `scripts/run.py` that runs it: none may be called ok that did not reach its end, no file
of the repository (a copy) may be damaged. Whatever is hit, ten seconds later nothing that it started may live.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import nbformat
import psutil
from nbformat.v4 import new_code_cell, new_notebook
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import rooms  # noqa: E402
import run  # noqa: E402

STAMP = "COURSE_FAULT"  # in the environment of all that we start; run.py gives its own children another mark as well
SIGNALS, EVERY, SERIES = ("SIGINT", "SIGTERM", "SIGKILL"), 5, 7  # steps from save to save, kills of one training
KINDS = [f"{hit} {name}" for hit in ("rank", "agent", "kernel", "run.py", "run.py --outputs") for name in SIGNALS]
CELLS = [
    f"%%writefile launch.py\n{rooms.program('launch').read_text()}",
    """%%writefile slow.py
import json, os, signal, time
from pathlib import Path

signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as stubborn as a rank that waits in a collective
Path(os.environ["FOLDER"], "begun").touch()
time.sleep(1)
if os.environ["RANK"] == "0":
    Path("slow.json").write_bytes(os.urandom(10**6) if "RUBBISH" in os.environ else json.dumps([20, 22]).encode())""",
    "from launch import result\nimport os\nfrom pathlib import Path\nprint('a word ' * 150_000)",
    "!torchrun --standalone --nproc-per-node=2 slow.py",
    "print('the sum:', sum(result('slow')))\nPath(os.environ['FOLDER'], 'done').touch()",
]
RUBBISH, READ_ONLY = "head -c 1000000 /dev/urandom >", "mount --bind {0} {0}; mount -o remount,bind,ro {0}; "
TRAIN, RUN = "$PYTHON $ROOMS/11_resume/resume.py --epochs 1 --pause 0", "$PYTHON $COPY/scripts/run.py --limit 60"
AGAIN = 'cd "$PWD"; '  # into what has just been mounted there
# What is done in an empty folder, in a mount namespace; the exit code; what must be said. $COPY is a repository.
ROOMS = {
    "full disk: checkpoint": (
        f"mount -t tmpfs -o size=150k small .; {AGAIN}{TRAIN} --every 2",
        (1, r"run/step-\d+\.rank-0-of-1\.pt.*No space left on device"),
    ),
    "full disk: pictures": (
        f"mount -t tmpfs -o size=20m small .; {AGAIN}$PYTHON $ROOMS/common/cifar10.py",
        (1, r"data has room for \d+ MB, pictures need \d+"),
    ),
    "full disk: notebook": (
        f"mkdir t; mount -t tmpfs -o size=300k small t; TMPDIR=$PWD/t {RUN} small",
        (1, r"small +\d+  FAILED.*No space left on device"),
    ),
    "full disk: pages": (
        f"mkdir s; mount -t tmpfs -o size=100k small s; {RUN} small --site s",
        (1, r"cannot write \S*s/small\.html \(No space left on device\)"),
    ),
    "full disk: outputs": (
        f"B=$COPY/notebooks; cp $B/small.ipynb old; mount -t tmpfs -o size=64k small $B; cp old $B/small.ipynb;"
        f"{RUN} --outputs small && exit 3; cmp old $B/small.ipynb || exit 4; exit 1",
        (1, r"cannot write \S*notebooks/small\.ipynb \(No space left on device\)"),
    ),
    "read-only: training": (READ_ONLY.format(".") + AGAIN + TRAIN, (1, "Read-only file system: 'run'")),
    "read-only: pages": (
        "mkdir s; " + READ_ONLY.format("s") + f"{RUN} small --site s",
        (1, r"cannot write pages into s \(Read-only file system\)"),
    ),
    "read-only: outputs": (
        READ_ONLY.format("$COPY/notebooks") + f"{RUN} small --outputs",
        (1, r"cannot write \S*notebooks/small\.ipynb \(Read-only file system\)"),
    ),
    "rubbish: checkpoint": (
        f"mkdir run; {RUBBISH} run/step-000010.rank-0-of-1.pt; {TRAIN} --go-on",
        (0, r"refuses run/step-000010\.rank-0-of-1\.pt is not a whole checkpoint: \S"),
    ),
    "rubbish: CIFAR-10": (
        f"D=data/cifar-10-batches-py; mkdir -p $D; {RUBBISH} $D/data_batch_1; $PYTHON $ROOMS/common/cifar10.py",
        (1, "data/cifar-10-batches-py/data_batch_1 is missing or damaged: delete"),
    ),
    "rubbish: made pictures": (
        f"mkdir data; {RUBBISH} data/generated.pt; $PYTHON $ROOMS/common/single.py && exit 3; $PYTHON $ROOMS/common/cifar10.py",
        (0, r"data/generated\.pt is damaged: run `python cifar10\.py`.*generated pictures: 10000 pictures"),
    ),
    "rubbish: results": (
        f"RUBBISH=1 {RUN} small",
        (1, r"slow\.py ended well but left no readable results in slow\.json"),
    ),
    "rubbish: notebook": (f"{RUBBISH} bad.ipynb; {RUN} bad.ipynb", (1, r"bad\.ipynb is not a notebook")),
}


class Lost(Exception):
    """A fault cost what it must not cost; the message says what."""


class Stopped(BaseException):
    """The campaign itself ends."""


stopped = threading.Event()


def demand(truth: object, otherwise: str) -> None:
    if not truth:
        raise Lost(otherwise)


def wait(condition: Callable, seconds: float, pause: float = 0.03):
    """The first true answer, or the last one when time is up."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()) and time.monotonic() < deadline:
        if stopped.wait(pause):
            raise Stopped
    return answer


def start(command: Collection, folder: Path, mark: str, **more: str | Path) -> subprocess.Popen:
    """Start a process in a folder; all that it starts bears the mark, and all that they say goes to `folder`/said."""
    if stopped.is_set():
        raise Stopped
    (folder / "tmp").mkdir(exist_ok=True)
    names = {STAMP: mark, "TMPDIR": folder / "tmp", "FOLDER": folder, "CUDA_VISIBLE_DEVICES": ""}
    env = os.environ | {"OMP_NUM_THREADS": "1"} | {name: str(value) for name, value in (names | more).items()}
    with (folder / "said").open("a") as said:
        return subprocess.Popen(
            list(map(str, command)),
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )


def marked(mark: str) -> dict[int, dict[str, str]]:
    """Living processes with this mark: process id → environment. A zombie has none."""
    found = {}
    for number in psutil.pids():
        with suppress(psutil.Error):
            environment = psutil.Process(number).environ()
            if environment.get(STAMP) == mark:
                found[number] = environment
    return found


def still(process: int) -> bool:
    """Whether a process does nothing: it is stopped, or over."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(process).status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    return True


def gone(mark: str, among: Collection[int] | None = None, seconds: float = 10) -> None:
    """Lost unless the processes with this mark, or those among some, end in time."""

    def left() -> list[int]:
        return [number for number in marked(mark) if among is None or number in among]

    if not wait(lambda: not left(), seconds):
        commands = []
        for number in left():
            with suppress(psutil.Error):
                commands.append(" ".join(psutil.Process(number).cmdline())[-90:])
        demand(not commands, f"alive after {seconds:g} s: {'; '.join(commands)}")


class Training:
    """resume.py on two ranks, hit and taken up until it has ended."""

    def __init__(self, folder: Path, mark: str, chance: random.Random):
        self.folder, self.mark, self.chance = folder, mark, chance
        self.agent, self.hit, self.kept = None, set(), 0  # torchrun; ranks that we met; step of the newest checkpoint
        self.unhurt = set()  # ranks that went on in spite of us
        folder.mkdir(parents=True)

    def begin(self, pause: float = 0.03) -> None:
        """Launch it, or launch it again; nothing while torchrun has a restart left."""
        if self.agent is None or self.agent.poll() is not None:
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
            # Told to end, a rank has 5 s before torchrun kills it; by default it has 30.
            command += ["--max-restarts=2", "--shutdown-timeout=5"]
            command += [rooms.program("resume"), "--epochs=10", f"--every={EVERY}"]
            command += [f"--pause={pause}", *["--go-on"] * bool(self.agent)]
            # Each life gets a store of its own, as lesson 11 does: else a rank may be given the address of a dead one.
            self.agent = start(command, self.folder, self.mark, TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1", PYTHONPATH=rooms.python_path())

    def over(self) -> bool:
        return self.agent.poll() is not None

    def ranks(self) -> dict[int, int]:
        """Rank → process id in the present life; empty until both are there."""
        found = {int(env["RANK"]): number for number, env in marked(self.mark).items() if "RANK" in env}
        found = {rank: number for rank, number in found.items() if number not in self.hit}
        return found if len(found) == 2 else {}

    def steps(self, process: int | None = None) -> list[int]:
        """The steps that rank 0 has logged, in all its lives or as this process."""
        path = self.folder / "run" / "log"
        text = path.read_text() if path.exists() else ""
        lines = text[: text.rfind("\n") + 1].splitlines()  # without one that is being written
        return [line["step"] for line in map(json.loads, lines) if process in (None, line["process"])]

    def saving(self, rank: int, process: int) -> bool:
        """Stop a rank in the middle of a save, its half-written file before us."""
        found = list((self.folder / "run").glob(f"*rank-{rank}*.part"))
        if found:
            os.kill(process, signal.SIGSTOP)
            if found[0].exists():
                return True
            os.kill(process, signal.SIGCONT)
        return False

    def strike(self, target: str, number: int) -> bool:
        """Send the signal while a life begins, trains or saves; False where the life ended before that."""
        when, victim, held = self.chance.random(), self.chance.randrange(2), None
        if target == "agent" and when < 0.2:
            wait(self.over, self.chance.uniform(0, 6))
        else:
            ranks = wait(lambda: self.over() or self.ranks(), 60)
            if when < 0.2:
                wait(self.over, self.chance.uniform(0, 4))
            elif not self.over():
                demand(ranks, "no two ranks within 60 s")
                wait(lambda: self.over() or self.steps(ranks[0]), 60)
                first = [*self.steps(ranks[0]), None][0]
                right = self.over() or ranks[0] in self.unhurt or first == self.kept + 1
                demand(right, f"went on with step {first}, not {self.kept + 1}")
                if when < 0.6:
                    wait(self.over, self.chance.uniform(0, 0.8))
                elif wait(lambda: self.over() or self.saving(victim, ranks[victim]), 20, 0.0005) and not self.over():
                    held = ranks[victim]
        if self.over():
            return False
        ranks = self.ranks()
        if target == "rank" and not ranks:
            return False
        self.hit |= set(ranks.values())
        before = len(self.steps(ranks.get(0)))
        with suppress(ProcessLookupError):
            os.kill(self.agent.pid if target == "agent" else ranks[victim], number)
        if held:
            with suppress(ProcessLookupError):
                os.kill(held, signal.SIGCONT)
        try:
            gone(self.mark, None if target == "agent" else ranks.values())
        except Lost:  # Python drops an interrupt that meets a destructor or a callback: then this life trains on
            if (target, number) != ("rank", signal.SIGINT):
                raise
            if not wait(lambda: len(self.steps(ranks[0])) > before + 20, 20):  # if it halts later, `finish` finds that
                raise
            self.hit -= set(ranks.values())
            self.unhurt |= set(ranks.values())
        # A process that is ending has no environment left, and is not over yet; torchrun may have a restart left.
        wait(lambda: self.over() or (target == "rank" and self.ranks()), 60)
        return True

    def inspect(self) -> None:
        """Lost unless all checkpoints are whole, and the newest that both ranks hold is as new as the log makes it.

        A life may train again by now. It stands still while we look, and what it has done does not count.
        """
        from checkpoint import newest, usable

        ranks, refused = self.ranks(), []
        try:
            for process in ranks.values():
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGSTOP)
            wait(lambda: all(map(still, ranks.values())), 5)  # a signal takes its time
            every, now = self.steps(), self.steps(ranks.get(0, 0))
            found = newest([usable(self.folder / "run", rank, 2, refused.append) for rank in (0, 1)])
        finally:
            for process in ranks.values():
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)
        demand(not refused, f"a save is not atomic: {refused[:1]}")
        due = (max(every[: len(every) - len(now)], default=1) - 1) // EVERY * EVERY
        kept = min([found[0] if found else 0, *(step - 1 for step in now[:1])])
        demand(kept >= max(due, self.kept), f"the newest checkpoint is of step {kept}, where {due} was saved")
        self.kept = kept

    def finish(self, pause: float = 0.03) -> dict:
        """Let it end; what it reports."""
        self.begin(pause)
        wait(self.over, 120)
        demand(self.agent.poll() == 0, f"did not end well: exit code {self.agent.poll()}")
        gone(self.mark)
        found = json.loads((self.folder / "resume.json").read_text())
        lives = {life["process"] for life in found["lives"]} - self.hit
        demand(len(lives) <= 1, "a life ended though nothing hit it")
        return found


def train(kind: str, chance: random.Random, tries: int, folder: Path, mark: str, tick: Callable, whole: list) -> list:
    """Hit trainings so often in all; for each try nothing, or what was lost."""
    (target, name), verdicts = kind.split(), []
    while len(verdicts) < tries:
        training, before = Training(folder / str(len(verdicts)), mark, chance), len(verdicts)
        try:
            while len(verdicts) < tries and (training.agent is None or training.agent.poll() != 0):
                training.begin()
                if training.strike(target, signal.Signals[name]):
                    verdicts.append("")
                    tick()
                    training.inspect()
            demand(len(verdicts) > before, "the training ended before it was hit")
            demand(training.finish()["losses"] == whole, "the losses differ from those of a run never interrupted")
        except Exception as error:  # found after the last hit, so it is counted there
            said = "\n".join((training.folder / "said").read_text(errors="replace").splitlines()[-12:])
            verdicts[max(before, len(verdicts) - 1) :] = [f"{type(error).__name__}: {error}\n{said}"]
            run.end(mark)
    return verdicts


def git(copy: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=faults", "-c", "user.email=faults@localhost", *arguments]
    return subprocess.run(command, cwd=copy, capture_output=True, text=True, check=True).stdout


def repository(folder: Path) -> Path:
    """A copy of the tools with one small notebook, all committed, and the site of an earlier run, where it was ok."""
    copy = folder / "copy"
    shutil.copytree(ROOT / "scripts", copy / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".gitignore", copy)
    for place in ("notebooks", "build/site"):
        (copy / place).mkdir(parents=True)
    (copy / "build/site/index.html").write_text('<td class="ok">ok</td>')
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    book = new_notebook(cells=[new_code_cell(cell) for cell in CELLS], metadata={"kernelspec": kernel})
    nbformat.write(book, copy / "notebooks" / "small.ipynb")
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        git(copy, *arguments)
    return copy


def judge(copy: Path, code: int | None, said: str, done: bool, outputs: bool = False) -> None:
    """Lost unless what run.py says of the notebook is true, and no file of the repository is damaged."""
    index, path = copy / "build/site/index.html", copy / "notebooks" / "small.ipynb"
    claims = {
        "the exit code": code == 0,
        "the table": re.search(r"^small(?: +\d+ |:) +ok\b", said, re.MULTILINE),
        "the page": index.exists() and 'class="ok"' in index.read_text(),
    }
    for claim, made in claims.items():
        demand(done or not made, f"{claim} says ok of a notebook that did not reach its end")
    changed = git(copy, "status", "--porcelain").splitlines()
    ours = [" M notebooks/small.ipynb"] if outputs else []
    demand(set(changed) <= set(ours), f"files of the repository have changed: {changed}")
    try:
        cells = nbformat.read(path, as_version=4).cells
    except Exception as error:
        raise Lost(f"{path.name} is damaged: {type(error).__name__}") from error
    demand([cell.source for cell in cells] == CELLS, f"{path.name} has lost cells")
    demand(not changed or "the sum: 42" in str(cells[-1].outputs), f"{path.name} has lost its outputs")


def interrupt(kind: str, chance: random.Random, folder: Path, mark: str) -> bool:
    """Hit run.py, or the kernel of its notebook, at some moment; False where it ended before."""
    target, name = kind.rsplit(" ", 1)
    outputs, copy = "--outputs" in target, repository(folder)  # makes the folder, too
    path, said, command = copy / "notebooks" / "small.ipynb", folder / "said", [copy / "scripts" / "run.py", "small"]

    def kernels() -> list[int]:
        with suppress(psutil.Error):
            return [n for n in marked(mark) if any("ipykernel" in word for word in psutil.Process(n).cmdline())]
        return []

    moments = {  # what to wait for, and how much longer
        "it begins": (lambda: True, 3),
        "the kernel lives": (kernels, 4),
        "the ranks live": ((folder / "begun").exists, 1.5),
        "pages are made": (lambda: "seconds  result" in said.read_text(), 1),
        "outputs are written": (lambda: path.stat().st_mtime_ns != old or list(path.parent.glob("*.part")), 0),
    }
    first, last = (1, 3) if target == "kernel" else (0, 5 if outputs else 4)
    moment = chance.choice(list(moments)[first:last])
    condition, more = moments[moment]
    if moment == "it begins":  # it may not have got as far as to take the page of the earlier run away
        (copy / "build/site/index.html").unlink()
    old = path.stat().st_mtime_ns
    process = start([sys.executable, *command, *["--outputs"] * outputs], folder, mark)
    wait(lambda: process.poll() is not None or condition(), 60, 0.0002 if not more else 0.03)
    wait(lambda: process.poll() is not None, chance.uniform(0, more))
    victim = process.pid if target != "kernel" else [*kernels(), 0][0]
    if process.poll() is not None or not victim:
        gone(mark)
        return False
    ranks = [number for number, env in marked(mark).items() if "RANK" in env]
    send = os.kill if target == "kernel" else chance.choice([os.kill, os.killpg])  # Ctrl-C goes to the whole group
    with suppress(ProcessLookupError):
        send(victim, signal.Signals[name])
    if target == "kernel":
        gone(mark, ranks if name != "SIGINT" else [])
        demand(wait(lambda: process.poll() is not None, 60), "run.py does not end")
    gone(mark)
    judge(copy, process.wait(), said.read_text(), (folder / "done").exists(), outputs)
    demand(not list((folder / "tmp").iterdir()), "a temporary folder is left")
    return True


def room(kind: str, folder: Path, mark: str) -> None:
    """Start a program in a small or rubbish-filled room; Lost unless it ends with the right code and words."""
    script, (code, words) = ROOMS[kind]
    places = {"PYTHON": sys.executable, "ROOMS": rooms.LESSONS, "PYTHONPATH": rooms.python_path(), "COPY": repository(folder)}
    process = start(["unshare", "-rm", "bash", "-ec", script], folder, mark, **places)
    demand(wait(lambda: process.poll() is not None, 90), "it does not end within 90 s")
    gone(mark)
    said = (folder / "said").read_text(errors="replace")
    last = "\n".join(said.strip().splitlines()[-3:])[-600:]
    demand(process.poll() == code, f"exit code {process.poll()}, and should be {code}: {last}")
    demand(re.search(words, said, re.DOTALL), f"nobody says “{words}”: {last}")
    demand("run.py" not in script or "Traceback" not in said, f"run.py ends in a Traceback: {last}")
    demand(len(said) < 20_000, f"it says {len(said)} characters")


def attempt(job: tuple[str, int, int], work: Path, mark: str, tick: Callable, whole: list) -> list[str]:
    """One job: a kind, its seed and how many tries; a verdict each."""
    kind, seed, tries = job
    chance, mark = random.Random(f"{kind} {seed}"), f"{mark}-{kind}-{seed}."
    folder = work / re.sub(r"\W+", "-", f"{kind} {seed}")
    folder.mkdir()
    if kind.startswith(("rank", "agent")):
        return train(kind, chance, tries, folder, mark, tick, whole)
    try:
        if kind in ROOMS:
            room(kind, folder, mark)
        else:
            runs = (folder / str(n) for n in range(5))
            demand(any(interrupt(kind, chance, place, mark) for place in runs), "could not be hit in five runs")
        verdict = ""
    except Exception as error:
        verdict = f"{type(error).__name__}: {error}"
        run.end(mark)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tick()
    return [verdict]


def table(results: dict[tuple[str, int, int], list[str]]) -> int:
    """Print tries, survived and lost for each fault, then every loss and how to repeat it; how many were lost."""
    kinds = {}
    for (kind, _, _), verdicts in results.items():
        kinds.setdefault(kind, []).extend(verdicts)
    print(f"{'fault':32}{'tries':>6}{'survived':>10}{'lost':>6}")
    for kind, verdicts in [*kinds.items(), ("all", [one for found in kinds.values() for one in found])]:
        lost = sum(map(bool, verdicts))
        print(f"{kind:32}{len(verdicts):6}{len(verdicts) - lost:10}{lost:6}")
    for (kind, seed, tries), verdicts in results.items():
        for n, reason in enumerate(verdicts, 1):
            if reason:
                again = f'python tests/campaigns/faults.py --seed {seed} --tries {tries} --only "{kind}"'
                print(f"\n{kind}, try {n} of {tries}: {reason}\n    {again}")
    return lost


def jobs(only: str, tries: int, seed: int) -> list[tuple[str, int, int]]:
    """Kind, seed and tries of each job; a training is hit several times."""
    made = [(kind, seed, 1) for kind in ROOMS if only in kind]
    for kind in [kind for kind in KINDS if only in kind]:
        size = SERIES if kind.startswith(("rank", "agent")) else 1
        made += [(kind, seed + n, min(size, tries - at)) for n, at in enumerate(range(0, tries, size))]
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tries", type=int, default=14, help="kills of each of the 15 kinds")
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    args = parser.parse_args()
    todo, mark = jobs(args.only, args.tries, args.seed), uuid.uuid4().hex
    work = Path(tempfile.mkdtemp(prefix="faults-"))
    watch = [sys.executable, __file__, "--guard", mark, work]
    guardian = subprocess.Popen(watch, stdin=subprocess.PIPE, start_new_session=True)  # clears up, however we end
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, run.stop)
    pool = ThreadPoolExecutor(2)
    try:
        whole = []
        if any(kind.startswith(("rank", "agent")) for kind, _, _ in todo):
            whole = Training(work / "whole", f"{mark}-whole", random.Random()).finish(pause=0)["losses"]
        random.Random(args.seed).shuffle(todo)  # trainings wait while notebooks compute
        with tqdm(total=sum(tries for *_, tries in todo)) as bar:
            found = list(pool.map(lambda job: attempt(job, work, mark, bar.update, whole), todo))
        order = [*KINDS, *ROOMS]
        results = dict(sorted(zip(todo, found, strict=True), key=lambda one: (order.index(one[0][0]), one[0][1])))
        return 1 if table(results) else 0
    finally:
        stopped.set()
        run.end(mark)
        pool.shutdown(cancel_futures=True)
        guardian.communicate()


if __name__ == "__main__":
    run.MARK = STAMP  # what run.py's own clearing up looks for
    if sys.argv[1:2] == ["--guard"]:
        run.guard(*sys.argv[2:])
    else:
        sys.exit(main())
