"""Rooms where a program cannot do its work: disks that are full or read-only, files of rubbish."""

import re
import sys
from pathlib import Path
from typing import NamedTuple

from faults_notebook import repository
from faults_processes import demand, gone, start, wait

from course import rooms


class Room(NamedTuple):
    script: str  # what is done in an empty folder, in a mount namespace; $COPY is a repository
    code: int  # how it must end
    words: str  # a pattern of what must be said


AGAIN = 'cd "$PWD"; '  # into what has just been mounted there
READ_ONLY = "mount --bind {0} {0}; mount -o remount,bind,ro {0}; "
RUBBISH = "head -c 1000000 /dev/urandom >"
CIFAR10 = "$PYTHON $ROOMS/common/cifar10.py"
SINGLE = "$PYTHON $ROOMS/common/single.py"
TRAIN = "$PYTHON $ROOMS/11_resume/resume.py --epochs 1 --pause 0"
RUN = "PYTHONPATH=$COPY/scripts $PYTHON -m course.run.notebooks --limit 60"
COURSE = "PYTHONPATH=$COPY/scripts $PYTHON -m course.run"
FILL = "head -c 1000000 /dev/zero >"


def small_disk(size: str, folder: str = ".") -> str:
    """A command that gives a folder a disk of its own, with no more room than this."""
    return f"mount -t tmpfs -o size={size} small {folder}; "


ROOMS = {
    "full disk: checkpoint": Room(
        small_disk("150k") + AGAIN + f"{TRAIN} --every 2",
        1,
        r"run/step-\d+\.rank-0-of-1\.pt.*No space left on device",
    ),
    "full disk: pictures": Room(
        small_disk("20m") + AGAIN + CIFAR10,
        1,
        r"data has room for \d+ MB, pictures need \d+",
    ),
    "full disk: notebook": Room(
        "mkdir t; " + small_disk("300k", "t") + f"TMPDIR=$PWD/t {RUN} small",
        1,
        r"small +\d+  FAILED.*No space left on device",
    ),
    "full disk: notebooks as they ran": Room(
        "mkdir s; " + small_disk("100k", "s") + f"{RUN} small --executed s",
        1,
        r"cannot write \S*s/small\.ipynb \(No space left on device\)",
    ),
    "full disk: make run": Room(
        "E=$COPY/build/executed; " + small_disk("100k", "$E") + f"{COURSE} small",
        1,
        r"cannot write \S*executed/small\.ipynb \(No space left on device\)",
    ),
    "full disk: make run begins": Room(
        "B=$COPY/build; " + small_disk("8k", "$B") + f"! {FILL} $B/full; {COURSE} small",
        1,
        r"run: cannot write \S*executed\S* \(No space left on device\): make room",
    ),
    "full disk: outputs": Room(
        "B=$COPY/notebooks; cp $B/small.ipynb old; "
        + small_disk("64k", "$B")
        + f"cp old $B/small.ipynb; {RUN} --outputs small && exit 3; "
        + "cmp old $B/small.ipynb || exit 4; exit 1",
        1,
        r"cannot write \S*notebooks/small\.ipynb \(No space left on device\)",
    ),
    "read-only: training": Room(
        READ_ONLY.format(".") + AGAIN + TRAIN,
        1,
        "Read-only file system: 'run'",
    ),
    "read-only: notebooks as they ran": Room(
        "mkdir s; " + READ_ONLY.format("s") + f"{RUN} small --executed s",
        1,
        r"cannot write notebooks into s \(Read-only file system\)",
    ),
    "read-only: outputs": Room(
        READ_ONLY.format("$COPY/notebooks") + f"{RUN} small --outputs",
        1,
        r"cannot write \S*notebooks/small\.ipynb \(Read-only file system\)",
    ),
    "rubbish: checkpoint": Room(
        f"mkdir run; {RUBBISH} run/step-000010.rank-0-of-1.pt; {TRAIN} --go-on",
        0,
        r"refuses run/step-000010\.rank-0-of-1\.pt is not a checkpoint to load: \S",
    ),
    "rubbish: CIFAR-10": Room(
        f"D=data/cifar-10-batches-py; mkdir -p $D; {RUBBISH} $D/data_batch_1; {CIFAR10}",
        1,
        "data/cifar-10-batches-py/data_batch_1 is missing or damaged: delete",
    ),
    "rubbish: made pictures": Room(
        f"mkdir data; {RUBBISH} data/generated.pt; {SINGLE} && exit 3; {CIFAR10}",
        0,
        r"data/generated\.pt is damaged: run `python cifar10\.py`"
        r".*generated pictures: 10000 pictures",
    ),
    "rubbish: results": Room(
        f"RUBBISH=1 {RUN} small",
        1,
        r"slow\.py ended well but left no readable results in slow\.json",
    ),
    "rubbish: notebook": Room(
        f"{RUBBISH} bad.ipynb; {RUN} bad.ipynb",
        1,
        r"bad\.ipynb is not a notebook",
    ),
}


def visit(kind: str, folder: Path, mark: str) -> None:
    """Start a program in one of the rooms; Lost unless it ends with the right code and words."""
    room = ROOMS[kind]
    names = {"PYTHON": sys.executable, "COPY": repository(folder)}
    names |= {"ROOMS": rooms.LESSONS, "PYTHONPATH": rooms.python_path()}
    command = ["unshare", "-rm", "bash", "-ec", room.script]
    process = start(command, folder, mark, **names)
    ended = wait(lambda: process.poll() is not None, 90)
    demand(ended, "it does not end within 90 s")
    gone(mark)
    code = process.poll()
    said = (folder / "said").read_text(errors="replace")
    last = "\n".join(said.strip().splitlines()[-3:])[-600:]
    demand(code == room.code, f"exit code {code}, and should be {room.code}: {last}")
    demand(re.search(room.words, said, re.DOTALL), f"nobody says “{room.words}”: {last}")
    clean = "course.run" not in room.script or "Traceback" not in said
    demand(clean, f"run.py ends in a Traceback: {last}")
    demand(len(said) < 20_000, f"it says {len(said)} characters")
