"""Files that are no checkpoint, or not the one that is wanted: what torch.load and our load say.

Run:  python refuse.py                                              # one process
      torchrun --standalone --nproc-per-node=2 refuse.py            # two ranks
"""

import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present
from torch.nn.parallel import DistributedDataParallel

from checkpoint import load, reason, save
from devices import Place, here, report, start

KINDS = ["nothing", "cut short", "one byte", "a zip file", "noise"]
KINDS += ["other PyTorch file", "code inside"]
BY = ["torch", "ours"]  # who loads
ELSEWHERE = f"cuda:{max(7, torch.cuda.device_count())}"  # a GPU that this machine does not have


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
        return f"{type(error).__name__}: {error if full else reason(error)}"


def doubtful(folder: Path, made: Path) -> dict[str, Path]:
    """Files of many kinds, by what is wrong with them. Code inside the last one makes `made`."""
    paths = {kind: folder / f"{kind.replace(' ', '-')}.pt" for kind in KINDS}
    ones = torch.ones(1000)
    save({"weights": ones}, paths["nothing"])
    whole = paths["nothing"].read_bytes()
    paths["cut short"].write_bytes(whole[: len(whole) // 2])
    at = whole.index(ones.numpy().tobytes()) + 2
    paths["one byte"].write_bytes(whole[:at] + b"\0" + whole[at + 1 :])
    zipfile.ZipFile(paths["a zip file"], "w").close()
    paths["noise"].write_bytes(os.urandom(4000))
    torch.save([1, 2, 3], paths["other PyTorch file"])
    torch.save({"weights": Trap(made)}, paths["code inside"])
    return paths


def names_under_ddp(place: Place) -> tuple[dict[str, list[str]], dict[str, str], str]:
    """Names in two states of a DDP model; and what a model without DDP says when it loads them.

    The last is the whole message about the names that do not fit.
    """
    ddp_model = DistributedDataParallel(nn.Linear(3, 2).to(place.device))
    model = nn.Linear(3, 2)
    states = {
        "ddp_model": ddp_model.state_dict(),
        "ddp_model.module": ddp_model.module.state_dict(),
    }
    names = {saved: list(state) for saved, state in states.items()}
    loads = {saved: complaint(model.load_state_dict, state) for saved, state in states.items()}
    renamed = dict(states["ddp_model"])
    consume_prefix_in_state_dict_if_present(renamed, "module.")
    loads["prefix removed"] = complaint(model.load_state_dict, renamed)
    return names, loads, complaint(model.load_state_dict, states["ddp_model"], full=True)


def from_elsewhere(path: Path, device: torch.device) -> dict[str, str]:
    """A file knows the device of each tensor. This one names a GPU that is not here.

    What loading it comes to without `map_location`, and the device that it comes to with it.
    """
    torch.serialization.register_package(
        0, lambda storage: ELSEWHERE, lambda storage, location: None
    )
    torch.save(torch.ones(3), path)
    without = complaint(torch.load, path, weights_only=True)
    tensor = torch.load(path, weights_only=True, map_location=device)
    return {"without": without, "with": str(tensor.device)}


@record
def main() -> None:
    place = here()
    start(place)
    folder = Path(f"doubtful-{place.rank}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()

    # Each file goes to torch.load and to our load.
    made = folder / "made-by-a-checkpoint"
    paths = doubtful(folder, made)
    table = {}
    for wrong, path in paths.items():
        by_torch = complaint(torch.load, path, weights_only=True)
        table[wrong] = {"torch": by_torch, "ours": complaint(load, path)}
    first = torch.load(paths["one byte"], weights_only=True)["weights"][0].item()

    # So far the code inside has not run: the folder is not there yet.
    code = {"weights_only=True": made.exists()}
    torch.load(paths["code inside"], weights_only=False)  # only for files that you wrote yourself
    code["weights_only=False"] = made.exists()

    # Whole messages, for those who look for a piece of theirs.
    said = {}
    for wrong in ("cut short", "code inside"):
        said[wrong] = complaint(torch.load, paths[wrong], weights_only=True, full=True)
    names, loads, said["prefix"] = names_under_ddp(place)
    where = from_elsewhere(folder / "elsewhere.pt", place.device)
    if place.rank == 0:
        accepted = [sum(row[by] == "no complaint" for row in table.values()) for by in BY]
        print(f"{len(table)} files: torch.load accepts {accepted[0]}, our load {accepted[1]}")
    results = {"table": table, "first": first, "code": code, "said": said}
    report("refuse", place, **results, names=names, loads=loads, where=where)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
