"""Files that are no checkpoint, or not ours: what torch.load and our load say.

Run:  python refuse.py
"""

import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch.distributed.elastic.multiprocessing.errors import record

from checkpoint import load, reason, save
from devices import here, report

KINDS = ["nothing", "cut short", "one byte", "a zip file", "noise"]
KINDS += ["other PyTorch file", "code inside"]
BY = ["torch", "ours"]  # who loads


class Trap:
    """What is called while a file is unpickled is up to the file: this one makes a folder."""

    def __init__(self, folder: Path):
        self.folder = str(folder)

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def complaint(action: Callable, *arguments, full: bool = False, **options) -> str:
    """The gist of what an action raises, or all that it says; "no complaint" if nothing."""
    try:
        action(*arguments, **options)
        return "no complaint"
    except Exception as error:
        kind = type(error).__name__
        message = error if full else reason(error)
        return f"{kind}: {message}"


def doubtful(folder: Path, made: Path) -> dict[str, Path]:
    """Files of many kinds, by what is wrong with them. Code inside the last one makes `made`."""
    paths = {}
    for kind in KINDS:
        name = kind.replace(" ", "-")
        paths[kind] = folder / f"{name}.pt"
    ones = torch.ones(1000)
    save({"weights": ones}, paths["nothing"])
    whole = paths["nothing"].read_bytes()
    paths["cut short"].write_bytes(whole[: len(whole) // 2])
    weights = ones.numpy().tobytes()
    at = whole.index(weights) + 2
    paths["one byte"].write_bytes(whole[:at] + b"\0" + whole[at + 1 :])
    zipfile.ZipFile(paths["a zip file"], "w").close()
    paths["noise"].write_bytes(os.urandom(4000))
    torch.save([1, 2, 3], paths["other PyTorch file"])
    torch.save({"weights": Trap(made)}, paths["code inside"])
    return paths


@record
def main() -> None:
    place = here()
    folder = Path(f"doubtful-{place.rank}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()

    # Each file goes to torch.load and to our load.
    made = folder / "made-by-a-checkpoint"
    paths = doubtful(folder, made)
    table = {}
    for wrong, path in paths.items():
        by_torch = complaint(torch.load, path, weights_only=True)
        by_ours = complaint(load, path)
        table[wrong] = {"torch": by_torch, "ours": by_ours}
    damaged = torch.load(paths["one byte"], weights_only=True)
    first = damaged["weights"][0].item()

    # Has the code inside run? Asked after loads with weights_only=True, and after one with False.
    code = {"weights_only=True": made.exists()}
    torch.load(paths["code inside"], weights_only=False)
    code["weights_only=False"] = made.exists()

    # Whole messages, for those who look for a piece of theirs.
    whole = {}
    for wrong in ("cut short", "code inside"):
        whole[wrong] = complaint(torch.load, paths[wrong], weights_only=True, full=True)
    accepted = []
    for by in BY:
        answers = [row[by] for row in table.values()]
        accepted.append(answers.count("no complaint"))
    print(f"{len(table)} files: torch.load accepts {accepted[0]}, our load {accepted[1]}")
    report("refuse", place, table=table, first=first, code=code, said=whole)


if __name__ == "__main__":
    main()
