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
    """A file is no checkpoint of ours, or not a whole one, or could not be saved; it is named."""


def path_of(folder: Path, step: int, rank: int, world_size: int) -> Path:
    """Where a rank saves its state after a step."""
    return folder / f"step-{step:06}.rank-{rank}-of-{world_size}.pt"


def reason(error: BaseException) -> str:
    """What an error says, in one sentence of at most 160 characters.

    Where torch.load gives long advice, it is the line that names the culprit.
    """
    message = str(error).rpartition("WeightsUnpickler error: ")[2]
    lines = message.strip().splitlines()
    if not lines:
        return type(error).__name__
    culprits = [line for line in lines if "GLOBAL" in line]
    line = (culprits or lines)[0]
    sentence = line.split(". ")[0]
    return sentence[:160]


def save(state: dict, path: Path) -> None:
    """Write a state of tensors, numbers, texts, lists and dicts.

    Until all is on the disk, `path` is as it was. CheckpointError if that fails.
    """
    try:
        with replacing(path) as file:
            torch.save(state | {"kind": KIND}, file)
    except OSError as error:
        raise CheckpointError(f"{path} could not be saved: {reason(error)}") from error
    except RuntimeError as error:
        # torch's "unexpected pos" hides what the disk said before.
        first = reason(error.__context__ or error)
        raise CheckpointError(f"{path} could not be saved: {first}") from error


def load(path: Path, device: torch.device | str = "cpu") -> dict:
    """The state in a file, its tensors on `device`.

    CheckpointError unless the file is one of ours, to the last byte.
    """
    state = None
    try:
        # torch writes a zip file with checksums, and does not compare them.
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        if not damaged:
            state = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:  # whatever a strange file provokes, the answer is the same
        raise CheckpointError(f"{path} is not a checkpoint to load: {reason(error)}") from error
    if damaged:
        raise CheckpointError(f"{path} is damaged: the checksum of {damaged} is wrong")
    if not isinstance(state, dict) or state.get("kind") != KIND:
        raise CheckpointError(f"{path} is a whole file, but not a {KIND}")
    return state


def load_of_rank(
    folder: Path, step: int, rank: int, world_size: int, device: torch.device | str = "cpu"
) -> dict:
    """What a rank needs to go on after a step: rank 0's file, and from its own what differs."""
    state = load(path_of(folder, step, 0, world_size), device)
    if rank > 0:
        state |= load(path_of(folder, step, rank, world_size), device)
    return state


def usable(
    folder: Path, rank: int, world_size: int, say: Callable[[str], None] = print
) -> dict[Key, Path]:
    """This rank's whole checkpoints, and rank 0's of runs with another number of ranks.

    Files that are refused are told to `say`.
    """
    whole = {}
    for path in sorted(folder.glob("step-*.pt")):
        numbers = re.findall(r"\d+", path.name)
        step, owner, size = map(int, numbers)
        wanted = rank if size == world_size else 0
        if owner != wanted:
            continue
        try:
            load(path)
            whole[step, size] = path
        except CheckpointError as error:
            say(f"rank {rank} refuses {error}")
    return whole


def newest(usable_on_ranks: list[dict[Key, Path]]) -> Key | None:
    """The newest checkpoint that is whole on all ranks; None where there is none."""
    common = set.intersection(*map(set, usable_on_ranks))
    return max(common, default=None)


def prune(folder: Path, rank: int, world_size: int, keep: int = 2) -> None:
    """Delete all but the newest files of this rank.

    Two stay at least, since one rank may be a save ahead of another.
    """
    own = sorted(folder.glob(f"step-*.rank-{rank}-of-{world_size}.pt"))
    for path in own[:-keep]:
        path.unlink()


@record
def main() -> None:
    place = here()
    folder = Path("example")
    folder.mkdir(exist_ok=True)
    for step in (1, 2, 3):
        weights = torch.full((1000,), float(step))
        state = {"step": step, "weights": weights}
        save(state, path_of(folder, step, 0, 1))
    prune(folder, 0, 1)
    os.truncate(path_of(folder, 3, 0, 1), 2000)  # of some 5,000 bytes
    whole = usable(folder, 0, 1)
    chosen = newest([whole])
    print(f"the newest whole checkpoint is that of step {chosen[0]}")
    report("checkpoint", place, newest=chosen)


if __name__ == "__main__":
    main()
