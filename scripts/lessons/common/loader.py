"""Whole batches of pictures as tensors, fetched, shifted and mirrored at once. How much faster?

Run:  python loader.py             # beside torchvision's picture-by-picture pipeline, on one core
"""

import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median

import torch
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from cifar10 import load
from devices import here, report

# Of CIFAR-10's training pictures: one number for each of the three colours.
MEAN = (0.4914, 0.4822, 0.4465)
STD = (0.2470, 0.2435, 0.2616)

Batch = tuple[Tensor, Tensor]  # pictures and their labels


class Pictures(Dataset):
    """Pictures and their labels, all in memory.

    DataLoader asks `__getitems__` for a whole batch: x (N, 3, 32, 32) uint8 and y (N,) int64.
    """

    def __init__(self, train: bool, size: int | None = None):
        self.x, self.y, self.source = load(train, size)

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> Batch:
        return self.x[index], self.y[index]

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        return self[torch.as_tensor(indices)]

    def batches(self, size: int, first: int = 0, stride: int = 1) -> Iterator[Batch]:
        """Pictures first, first + stride, … in order, `size` at a time, fewer in the last batch."""
        x = self.x[first::stride].split(size)
        y = self.y[first::stride].split(size)
        return zip(x, y, strict=True)


def as_is(batch: Batch) -> Batch:
    """`collate_fn` for batches that are tensors already."""
    return batch


def loading(workers: int, device: torch.device) -> dict[str, object]:
    """Options of a DataLoader that hands out `Pictures` for training, whole batches only."""
    return {
        "num_workers": workers,
        "collate_fn": as_is,
        "drop_last": True,
        "pin_memory": device.type == "cuda",  # in memory from which a GPU fetches by itself
    }


def normalise(x: Tensor) -> Tensor:
    """uint8 → float32, minus each colour's mean and divided by its deviation in CIFAR-10.

    Channels last in memory, since convolutions are faster that way.
    """
    mean = 255 * torch.tensor(MEAN, device=x.device).view(3, 1, 1)
    std = 255 * torch.tensor(STD, device=x.device).view(3, 1, 1)
    x = x.to(torch.float32, memory_format=torch.channels_last)
    return x.sub_(mean).div_(std)


def augment(x: Tensor, padding: int = 2) -> Tensor:
    """Shift each picture (N, C, H, W) by up to `padding` pixels, mirror every second, at random."""
    n, channels, height, width = x.shape
    shift_y, shift_x = torch.randint(2 * padding + 1, (2, n, 1), device=x.device)
    mirrored = torch.rand(n, 1, device=x.device) < 0.5

    # From which row and column of the padded picture each row and column comes: (N, H) and (N, W).
    row = torch.arange(height, device=x.device)
    column = torch.arange(width, device=x.device)
    rows = shift_y + row
    columns = shift_x + torch.where(mirrored, width - 1 - column, column)

    # Fetch all pixels in one go, by their numbers in the padded picture written as one line.
    padded_width = width + 2 * padding
    pixels = rows[:, :, None] * padded_width + columns[:, None, :]  # (N, H, W)
    index = pixels.flatten(1)[:, None]  # (N, 1, H·W)
    index = index.expand(-1, channels, -1)  # (N, C, H·W), the same for all channels
    padded = F.pad(x, (padding,) * 4)
    shifted = padded.flatten(2).gather(2, index)
    return shifted.view_as(x)


def rate(batches: Callable[[], object], pictures: int, rounds: int = 5) -> float:
    """Median pictures a second over some rounds, after one round to warm up."""
    seconds = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        batches()
        seconds.append(time.perf_counter() - began)
    return pictures / median(seconds[1:])


class OneByOne(Dataset):
    """The same pictures as torchvision's usual pipeline prepares them: one at a time."""

    def __init__(self, pictures: Pictures):
        from torchvision import transforms  # here, since this takes as long as importing torch

        self.pictures = pictures
        self.transform = transforms.Compose(
            [
                transforms.ToPILImage(),
                transforms.RandomCrop(32, padding=2),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize(MEAN, STD),
            ]
        )

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> Batch:
        x, y = self.pictures[index]
        return self.transform(x), y


@record
def main() -> None:
    torch.set_num_threads(1)
    pictures = Pictures(train=True, size=2048)
    ours = DataLoader(pictures, 128, shuffle=True, collate_fn=as_is)
    theirs = DataLoader(OneByOne(pictures), 128, shuffle=True)

    batched = rate(lambda: [normalise(augment(x)) for x, _ in ours], len(pictures))
    single = rate(lambda: list(theirs), len(pictures))
    print(f"pictures a second on one core: {single:,.0f} one by one, {batched:,.0f} in batches")
    report("loader", here(), batched=batched, single=single)


if __name__ == "__main__":
    main()
