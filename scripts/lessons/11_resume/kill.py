"""Kill a process while it saves, again and again: in place, and by a rename. What does it leave?

Run:  python kill.py --kills 4
"""

import argparse
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch.distributed.elastic.multiprocessing.errors import record

from checkpoint import CheckpointError, load, save
from devices import here, report

WAYS = {"in place": ["--in-place"], "write, fsync, rename": []}  # how to save: options of atomic.py


def killed_while_saving(
    name: Path, versions: list[Path], options: list[str], seconds: float
) -> None:
    """Start a process that saves `versions` under `name` in turn; SIGKILL it so much later."""
    command = [sys.executable, "atomic.py", name, *versions, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as saver:
        saver.stdout.readline()  # "saving"
        time.sleep(seconds)
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
    for way, options in WAYS.items():
        outcomes[way] = []
        for number in range(args.kills):
            name = folder / f"{way.split(',')[0].replace(' ', '-')}-{number}.pt"
            killed_while_saving(name, versions, options, random.uniform(0, 0.2))
            state, wrong = remains(name)
            complaint = wrong or complaint
            outcomes[way].append({"state": state, "bytes": name.stat().st_size / size})
            name.unlink()
        states = [outcome["state"] for outcome in outcomes[way]]
        counts = [f"{states.count(state)} × {state}" for state in ("old", "new", "torn")]
        print(f"{way + ':':22}", ", ".join(counts))
    left = len(list(folder.glob("*.part")))
    print(f"half-written files under another name: {left}")
    report("kill", place, found=outcomes, said=complaint, left=left)


if __name__ == "__main__":
    main()
