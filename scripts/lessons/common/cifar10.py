"""The pictures: find CIFAR-10, or fetch it, or make pictures of its shape.

The course's data policy, in one place; shapes.py makes the pictures.
Run:  python cifar10.py            # once, in one process, before any training: ranks only read
"""

import shutil
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen
from zipfile import is_zipfile

import torch
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report
from shapes import generate

ATTACHED = Path("/kaggle/input")
DATA = Path("data")
FOLDER = "cifar-10-batches-py"
MADE = DATA / "generated.pt"
ROOM = 400  # MB for CIFAR-10, with the archive it comes in


def find() -> Path | None:
    """The folder that holds `cifar-10-batches-py`, attached or local; None if there is none."""
    attached = sorted(ATTACHED.glob(f"**/{FOLDER}"))
    for folder in [*attached, DATA / FOLDER]:
        if folder.is_dir():
            return folder.parent
    return None


def read(root: Path, train: bool) -> tuple[Tensor, Tensor]:
    """Pictures (N, 3, 32, 32) uint8 and labels (N,) int64; RuntimeError naming a damaged file."""
    from torchvision.datasets import CIFAR10, utils  # here: it takes as long as importing torch

    try:
        data = CIFAR10(root, train=train, download=False)  # compares every file's MD5 sum
    except RuntimeError:
        folder = root / FOLDER
        names = (CIFAR10.meta["filename"], CIFAR10.meta["md5"])
        sums = [*CIFAR10.train_list, *CIFAR10.test_list, names]
        bad = next(name for name, md5 in sums if not utils.check_integrity(folder / name, md5))
        remedy = f"delete {folder}"
        if ATTACHED in folder.parents:
            remedy = "detach the dataset and attach it again"
        problem = f"{folder / bad} is missing or damaged"
        raise RuntimeError(f"{problem}: {remedy}, then run `python cifar10.py` again.") from None
    x = torch.from_numpy(data.data)  # (N, 32, 32, 3)
    x = x.permute(0, 3, 1, 2).contiguous()
    y = torch.tensor(data.targets)
    return x, y


def download() -> bool:
    """Put CIFAR-10 into ./data; False without internet. What is interrupted begins afresh."""
    from torchvision.datasets import CIFAR10, utils

    partial = DATA / "partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()

    # An archive that the reader has put into ./data goes before the internet.
    archive = DATA / CIFAR10.filename
    if not archive.exists():
        archive = partial / CIFAR10.filename
        with suppress(OSError, HTTPException), urlopen(CIFAR10.url, timeout=10) as answer:
            print(f"Downloading CIFAR-10 (170 MB) from {CIFAR10.url}")
            with archive.open("wb") as file:
                shutil.copyfileobj(answer, file)  # breaks off: leaves a file with a wrong MD5 sum
    if not archive.exists():
        return False
    if not utils.check_integrity(archive, CIFAR10.tgz_md5):
        remedy = "delete it, then run `python cifar10.py` again."
        raise RuntimeError(f"{archive} is damaged or half downloaded: {remedy}")

    # Unpack aside, then rename: the folder is there whole, or not at all.
    utils.extract_archive(archive, partial)
    (partial / FOLDER).rename(DATA / FOLDER)
    shutil.rmtree(partial)  # with the archive in it, if we fetched one
    return True


def load(train: bool, size: int | None = None) -> tuple[Tensor, Tensor, str]:
    """The first `size` pictures and labels, as `read` gives them, and what they are. Offline."""
    root = find()
    if root:
        x, y = read(root, train)
        return x[:size], y[:size], "CIFAR-10"
    if not is_zipfile(MADE):
        missing = f"There are no pictures, or {MADE} is damaged"
        raise RuntimeError(f"{missing}: run `python cifar10.py` before the training.")
    made = torch.load(MADE, weights_only=True)
    x, y = made["train"] if train else made["test"]
    return x[:size], y[:size], "generated pictures"


def prepare() -> None:
    """Download CIFAR-10, or else make pictures; RuntimeError if the disk is too full."""
    made = is_zipfile(MADE)
    free = shutil.disk_usage(DATA).free // 10**6
    if not made and free < ROOM:
        remedy = "delete files, then run this again."
        raise RuntimeError(f"{DATA} has room for {free} MB, pictures need {ROOM}: {remedy}")
    if not download() and not made:
        missing = "No CIFAR-10 attached or in ./data, and no internet"
        print(f"{missing}: making pictures of the same shape.")
        torch.save(generate(), DATA / "making")
        (DATA / "making").rename(MADE)


@record
def main() -> None:
    DATA.mkdir(exist_ok=True)
    if not find():
        prepare()
    x, y, source = load(train=True)
    _, test_y, _ = load(train=False)
    where = find() or MADE
    print(f"{source}: {len(y)} pictures to train on, {len(test_y)} to test on, from {where}")
    one_each = []
    for kind in range(10):
        pictures = x[y == kind]
        one_each.append(pictures[0].tolist())
    report("cifar10", here(), data=source, train=len(y), test=len(test_y), one_each=one_each)


if __name__ == "__main__":
    main()
