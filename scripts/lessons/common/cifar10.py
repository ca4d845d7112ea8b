"""The pictures: find CIFAR-10, or fetch it, or make pictures of its shape. The course's data policy, in one place.
Run:  python cifar10.py            # once, in one process, before any training: ranks only read"""

import shutil
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen
from zipfile import is_zipfile

import torch
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report

DATA, ATTACHED, ROOM = Path("data"), Path("/kaggle/input"), 400  # MB for CIFAR-10, with the archive it comes in
FOLDER, MADE = "cifar-10-batches-py", DATA / "generated.pt"


def find() -> Path | None:
    """The folder that holds `cifar-10-batches-py`, attached or local; None if there is none."""
    return next((p.parent for p in [*sorted(ATTACHED.glob(f"**/{FOLDER}")), DATA / FOLDER] if p.is_dir()), None)


def read(root: Path, train: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures (N, 3, 32, 32) uint8 and labels (N,) int64; RuntimeError naming the first damaged file."""
    from torchvision.datasets import (  # here, since importing it takes as long as importing torch
        CIFAR10,
        utils,
    )

    try:
        data = CIFAR10(root, train=train, download=False)  # compares every file's MD5 sum
    except RuntimeError:
        files = [*CIFAR10.train_list, *CIFAR10.test_list, [CIFAR10.meta["filename"], CIFAR10.meta["md5"]]]
        bad = next(root / FOLDER / name for name, md5 in files if not utils.check_integrity(root / FOLDER / name, md5))
        remedy = "detach the dataset and attach it again" if ATTACHED in bad.parents else f"delete {root / FOLDER}"
        raise RuntimeError(f"{bad} is missing or damaged: {remedy}, then run `python cifar10.py` again.") from None
    return torch.from_numpy(data.data).permute(0, 3, 1, 2).contiguous(), torch.tensor(data.targets)


def download() -> bool:
    """Put CIFAR-10 into ./data; False without internet. What is interrupted is begun afresh the next time."""
    from torchvision.datasets import CIFAR10, utils

    partial, archive = DATA / "partial", DATA / CIFAR10.filename
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    if not archive.exists():
        archive = partial / CIFAR10.filename
        with suppress(OSError, HTTPException), urlopen(CIFAR10.url, timeout=10) as answer, archive.open("wb") as file:
            print(f"Downloading CIFAR-10 (170 MB) from {CIFAR10.url}")
            shutil.copyfileobj(answer, file)  # what breaks off here leaves a file with a wrong MD5 sum
        if not archive.exists():
            return False
    if not utils.check_integrity(archive, CIFAR10.tgz_md5):
        raise RuntimeError(f"{archive} is damaged or half downloaded: delete it, then run `python cifar10.py` again.")
    utils.extract_archive(archive, partial)
    (partial / FOLDER).rename(DATA / FOLDER)
    shutil.rmtree(partial)  # with the archive in it, if we fetched one
    return True


def generate(train: int = 10_000, test: int = 1_999) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Ten blurred colour patterns, each shifted, mixed with another pattern and covered with noise."""
    rng = torch.Generator().manual_seed(0)
    patterns = torch.nn.functional.interpolate(torch.randn(60, 3, 6, 6, generator=rng), size=48, mode="bicubic")
    windows = patterns.unfold(2, 32, 1).unfold(3, 32, 1)  # (pattern, channel, y, x, 32, 32), y and x from 0 to 16
    made = {}
    for split, n in [("train", train), ("test", test)]:
        x, y = torch.empty(n, 3, 32, 32, dtype=torch.uint8), torch.randint(10, (n,), generator=rng)
        other, at = torch.randint(10, 60, (n,), generator=rng), torch.randint(17, (4, n), generator=rng)
        for part in torch.arange(n).split(500):
            mix = windows[y[part], :, at[0, part], at[1, part]] + windows[other[part], :, at[2, part], at[3, part]]
            x[part] = (128 + 30 * mix + 25 * torch.randn(mix.shape, generator=rng)).clamp(0, 255).to(torch.uint8)
        made[split] = x, y
    return made


def load(train: bool, size: int | None = None) -> tuple[torch.Tensor, torch.Tensor, str]:
    """The first `size` pictures (N, 3, 32, 32) uint8, labels (N,) int64, and what they are. Never downloads."""
    if not (root := find()) and not is_zipfile(MADE):
        raise RuntimeError(f"There are no pictures, or {MADE} is damaged: run `python cifar10.py` before the training.")
    x, y = read(root, train) if root else torch.load(MADE, weights_only=True)["train" if train else "test"]
    return x[:size], y[:size], "CIFAR-10" if root else "generated pictures"


@record
def main() -> None:
    DATA.mkdir(exist_ok=True)
    if not (find() or is_zipfile(MADE)) and (free := shutil.disk_usage(DATA).free // 10**6) < ROOM:
        raise RuntimeError(f"{DATA} has room for {free} MB, pictures need {ROOM}: delete files, then run this again.")
    if not (find() or download() or is_zipfile(MADE)):
        print("No CIFAR-10 attached or in ./data, and no internet: making pictures of the same shape.")
        torch.save(generate(), DATA / "making")
        (DATA / "making").rename(MADE)
    (x, y, source), test_y = load(train=True), load(train=False)[1]
    print(f"{source}: {len(y)} pictures to train on, {len(test_y)} to test on, from {find() or MADE}")
    report("cifar10", here(), data=source, train=len(x), test=len(test_y), first=[x[:30].tolist(), y[:30].tolist()])


if __name__ == "__main__":
    main()
