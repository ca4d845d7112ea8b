"""Kill a process while it saves, again and again, and look at what it leaves: in place, and by a rename.

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


def killed_while_saving(name: Path, versions: list[Path], options: list[str], wait: float) -> None:
    """Start a process that saves `versions` under `name` in turn, and SIGKILL it after some seconds of that."""
    command = [sys.executable, "atomic.py", name, *versions, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as saver:
        saver.stdout.readline()  # "saving"
        time.sleep(wait)
        saver.kill()


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=12, help="of each kind")
    parser.add_argument("--megabytes", type=int, default=16, help="size of the checkpoint")
    args, place, folder = parser.parse_args(), here(), Path("killed")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    versions = [folder / "old.pt", folder / "new.pt"]
    for version in versions:
        save({"version": version.stem, "weights": torch.randn(args.megabytes * 2**18)}, version)
    size = versions[0].stat().st_size

    found, said = {}, ""
    for way, options in {"in place": ["--in-place"], "write, fsync, rename": []}.items():
        found[way] = []
        for n in range(args.kills):
            name = folder / f"{way.split(',')[0].replace(' ', '-')}-{n}.pt"
            killed_while_saving(name, versions, options, random.uniform(0, 0.2))
            try:
                state = load(name)["version"]
            except CheckpointError as error:
                state, said = "torn", str(error)
            found[way].append({"state": state, "bytes": name.stat().st_size / size})
            name.unlink()
        states = [one["state"] for one in found[way]]
        print(f"{way + ':':22}", ", ".join(f"{states.count(state)} × {state}" for state in ("old", "new", "torn")))
    left = len(list(folder.glob("*.part")))
    print(f"half-written files under another name: {left}")
    report("kill", place, found=found, said=said, left=left)


if __name__ == "__main__":
    main()
