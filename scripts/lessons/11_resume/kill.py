"""Kill a process while it saves, again and again: in place, and by a rename. What does it leave?

Run:  python kill.py --kills 4
"""

import argparse
import random
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from torch.distributed.elastic.multiprocessing.errors import record

from checkpoint import CheckpointError, load, save
from devices import here, report

WAYS = {"in place": ["--in-place"], "write, fsync, rename": []}  # how to save: options of atomic.py


def written(path: Path) -> int:
    """How many bytes of a file are there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def killed_while_saving(name: Path, versions: list[Path], way: str, saves: int) -> None:
    """Start a process that saves `versions` under `name` in turn; SIGKILL it in the middle of one.

    That is the save after so many whole ones, at a random moment.
    """
    command = [sys.executable, "atomic.py", name, *versions, *WAYS[way]]
    path = name if way == "in place" else name.with_name(f"{name.name}.part")
    size = versions[0].stat().st_size
    least = random.uniform(0, 0.8) * size
    with subprocess.Popen(command, stdout=subprocess.PIPE) as saver:
        for _ in range(1 + saves):
            saver.stdout.readline()  # "saving", and for each save "saved"
        while not least <= written(path) < size:  # without a sleep: a save takes milliseconds
            if saver.poll() is not None:
                ended = f"atomic.py ended by itself, with exit code {saver.returncode}"
                raise RuntimeError(f"{ended}: nothing was left to kill. See what it printed above.")
        saver.kill()


def remains(name: Path) -> tuple[str, str]:
    """Which version a file holds, or "torn"; and what is wrong with it, in words."""
    try:
        return load(name)["version"], ""
    except CheckpointError as error:
        return "torn", str(error)


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=12, help="of each kind")
    parser.add_argument("--megabytes", type=int, default=16, help="size of the checkpoint")
    args = parser.parse_args()
    place = here()
    folder = Path("killed")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()

    # Two states that cannot be taken for each other, of the same size.
    versions = [folder / "old.pt", folder / "new.pt"]
    for version in versions:
        weights = torch.randn(args.megabytes * 2**18)
        save({"version": version.stem, "weights": weights}, version)
    size = versions[0].stat().st_size

    outcomes = {}
    complaint = ""
    for way in WAYS:
        outcomes[way] = []
        first_step, _, _ = way.partition(",")
        stem = first_step.replace(" ", "-")
        for number in range(args.kills):
            name = folder / f"{stem}-{number}.pt"
            # By turns the save of the new version over the old one, and of the old over the new.
            killed_while_saving(name, versions, way, saves=number % 2)
            state, wrong = remains(name)
            complaint = wrong or complaint
            share = name.stat().st_size / size
            outcomes[way].append({"state": state, "bytes": share})
            name.unlink()
        states = [outcome["state"] for outcome in outcomes[way]]
        counts = [f"{states.count(state)} × {state}" for state in ("old", "new", "torn")]
        print(f"{way + ':':22}", ", ".join(counts))
    left = len(list(folder.glob("*.part")))
    print(f"half-written files under another name: {left}")
    report("kill", place, found=outcomes, said=complaint, left=left)


if __name__ == "__main__":
    main()
