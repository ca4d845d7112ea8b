"""Files that are no checkpoint, or not the one that is wanted: what torch.load makes of them, and what we do.

Run:  python refuse.py                                              # one process
      torchrun --standalone --nproc-per-node=2 refuse.py            # two ranks
"""

import os
import shutil
import zipfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from checkpoint import load, reason, save
from devices import here, report

ELSEWHERE = f"cuda:{max(7, torch.cuda.device_count())}"  # a GPU that this machine does not have


class Trap:
    """What is called while a file is unpickled is up to the file: this one makes a folder."""

    def __init__(self, folder: Path):
        self.folder = str(folder)

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def said(action: Callable, *arguments, **options) -> str:
    """The gist of what an action raises, or "no complaint"."""
    try:
        action(*arguments, **options)
        return "no complaint"
    except Exception as error:
        return f"{type(error).__name__}: {reason(error)}"


def doubtful(folder: Path) -> dict[str, Path]:
    """Files of many kinds, by what is wrong with them."""
    names = ["nothing", "cut short", "one byte", "a zip file", "noise", "other PyTorch file", "code inside"]
    paths = {name: folder / f"{name.replace(' ', '-')}.pt" for name in names}
    save({"weights": torch.ones(1000)}, paths["nothing"])
    whole = paths["nothing"].read_bytes()
    paths["cut short"].write_bytes(whole[: len(whole) // 2])
    at = whole.index(torch.ones(1000).numpy().tobytes()) + 2
    paths["one byte"].write_bytes(whole[:at] + b"\0" + whole[at + 1 :])
    zipfile.ZipFile(paths["a zip file"], "w").close()
    paths["noise"].write_bytes(os.urandom(4000))
    torch.save([1, 2, 3], paths["other PyTorch file"])
    torch.save({"weights": Trap(folder / "made-by-a-checkpoint")}, paths["code inside"])
    return paths


@record
def main() -> None:
    place = here()
    folder = Path(f"doubtful-{place.rank}")
    dist.init_process_group(place.backend, timeout=timedelta(seconds=60))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    paths, table = doubtful(folder), {}
    for wrong, path in paths.items():
        table[wrong] = {"torch": said(torch.load, path, weights_only=True), "ours": said(load, path)}
    first = torch.load(paths["one byte"], weights_only=True)["weights"][0].item()

    made = folder / "made-by-a-checkpoint"
    code = {"weights_only=True": made.exists()}
    torch.load(paths["code inside"], weights_only=False)  # never do this with a file that you did not write
    code["weights_only=False"] = made.exists()

    ddp_model, plain = DistributedDataParallel(nn.Linear(3, 2).to(place.device)), nn.Linear(3, 2)
    saved = {"ddp_model": ddp_model.state_dict(), "ddp_model.module": ddp_model.module.state_dict()}
    names = {name: list(weights) for name, weights in saved.items()}
    loads = {name: said(plain.load_state_dict, weights) for name, weights in saved.items()}
    nn.modules.utils.consume_prefix_in_state_dict_if_present(mended := dict(saved["ddp_model"]), "module.")
    loads["prefix removed"] = said(plain.load_state_dict, mended)

    # A file knows the device of each tensor. This one names a GPU that is not here.
    elsewhere = folder / "elsewhere.pt"
    torch.serialization.register_package(0, lambda storage: ELSEWHERE, lambda storage, location: None)
    torch.save(torch.ones(3), elsewhere)
    where = {"without": said(torch.load, elsewhere, weights_only=True)}
    where["with"] = str(torch.load(elsewhere, weights_only=True, map_location=place.device).device)
    if place.rank == 0:
        for wrong, row in table.items():
            print(f"{wrong + ':':20} {row['ours']}")
    report("refuse", place, table=table, first=first, code=code, names=names, loads=loads, where=where)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
