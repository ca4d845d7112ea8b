"""Checkpoints that are whole or refused: save, load, and find the newest one that all ranks hold.

Run:  python checkpoint.py            # saves one, cuts it short, and asks for the newest
"""

import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch.distributed.elastic.multiprocessing.errors import record

from atomic import replacing
from devices import here, report

KIND = "training state of lesson 11"  # tells our files from other people's
Key = tuple[int, int]  # step, world size: what one checkpoint of all ranks is called


class CheckpointError(RuntimeError):
    """A file is no checkpoint of ours, or not a whole one, or could not be saved. The message names it."""


def place_of(folder: Path, step: int, rank: int, world_size: int) -> Path:
    return folder / f"step-{step:06}.rank-{rank}-of-{world_size}.pt"


def reason(error: Exception) -> str:
    """What an error says, in one sentence; where torch.load gives long advice, the line that names the culprit."""
    lines = str(error).rpartition("WeightsUnpickler error: ")[2].strip().splitlines() or [type(error).__name__]
    return next((line for line in lines if "GLOBAL" in line), lines[0]).split(". ")[0][:120]


def save(state: dict, path: Path) -> None:
    """Write a state of tensors, numbers, texts, lists and dicts. Until all is on the disk, `path` is as it was."""
    try:
        with replacing(path) as file:
            torch.save(state | {"kind": KIND}, file)
    except (OSError, RuntimeError) as error:  # torch's "unexpected pos" may stand before what the disk said
        said = error if isinstance(error, OSError) else error.__context__ or error
        raise CheckpointError(f"{path} could not be saved: {reason(said)}") from error


def load(path: Path, device: torch.device | str = "cpu") -> dict:
    """The state in a file, its tensors on `device`; CheckpointError unless it is one of ours, to the last byte."""
    try:
        with zipfile.ZipFile(path) as archive:  # torch writes a zip file with checksums, and does not compare them
            damaged = archive.testzip()
        state = None if damaged else torch.load(path, map_location=device, weights_only=True)
    except Exception as error:  # whatever a strange file provokes, the answer is the same
        raise CheckpointError(f"{path} is not a whole checkpoint: {reason(error)}") from error
    if damaged:
        raise CheckpointError(f"{path} is damaged: the checksum of {damaged} is wrong")
    if not isinstance(state, dict) or state.get("kind") != KIND:
        raise CheckpointError(f"{path} is a whole file, but not a {KIND}")
    return state


def usable(folder: Path, rank: int, world_size: int, say: Callable[[str], None] = print) -> dict[Key, Path]:
    """This rank's whole checkpoints, and rank 0's of runs with another number of ranks; says what it refuses."""
    found = {}
    for path in sorted(folder.glob("step-*.pt")):
        step, owner, size = map(int, re.findall(r"\d+", path.name))
        if owner == (rank if size == world_size else 0):
            try:
                load(path)
                found[step, size] = path
            except CheckpointError as error:
                say(f"rank {rank} refuses {error}")
    return found


def newest(usable_on_ranks: list[dict[Key, Path]]) -> Key | None:
    """The newest checkpoint that is whole on all ranks; None where there is none."""
    return max(set.intersection(*map(set, usable_on_ranks)), default=None)


def prune(folder: Path, rank: int, world_size: int, keep: int = 2) -> None:
    """Delete all but the newest files of this rank: two at least, since one rank may be a save ahead of another."""
    for path in sorted(folder.glob(f"step-*.rank-{rank}-of-{world_size}.pt"))[:-keep]:
        path.unlink()


@record
def main() -> None:
    place, folder = here(), Path("example")
    folder.mkdir(exist_ok=True)
    for step in (1, 2, 3):
        save({"step": step, "weights": torch.full((1000,), float(step))}, place_of(folder, step, 0, 1))
    prune(folder, 0, 1)
    os.truncate(place_of(folder, 3, 0, 1), 2000)  # of some 5,000 bytes
    found = newest([usable(folder, 0, 1)])
    print(f"the newest whole checkpoint is that of step {found[0]}")
    report("checkpoint", place, newest=found)


if __name__ == "__main__":
    main()
