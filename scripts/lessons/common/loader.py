"""Whole batches of pictures as tensors, fetched, shifted and mirrored at one stroke. How much faster is that?

Run:  python loader.py             # beside torchvision's picture-by-picture pipeline, on one core
"""

import time
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from cifar10 import load
from devices import here, report

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of CIFAR-10's training pictures, per channel


class Pictures(Dataset):
    """Pictures and labels; DataLoader asks `__getitems__` for a whole batch: x (N, 3, 32, 32) uint8, y (N,) int64."""

    def __init__(self, train: bool, size: int | None = None):
        self.x, self.y, self.source = load(train, size)

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]

    def __getitems__(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        return self[torch.as_tensor(indices)]

    def batches(self, size: int, first: int = 0, stride: int = 1) -> Iterator[tuple[Tensor, Tensor]]:
        """Pictures first, first + stride, … in order, `size` at a time; the last batch may be smaller."""
        return zip(self.x[first::stride].split(size), self.y[first::stride].split(size), strict=True)


def as_is(batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """`collate_fn` for batches that are tensors already."""
    return batch


def normalise(x: Tensor) -> Tensor:
    """uint8 → float32 with mean 0 and standard deviation 1 a channel, channels last in memory (faster convolutions)."""
    mean, std = (255 * torch.tensor(values, device=x.device).view(3, 1, 1) for values in (MEAN, STD))
    return x.to(torch.float32, memory_format=torch.channels_last).sub_(mean).div_(std)


def augment(x: Tensor, padding: int = 2) -> Tensor:
    """Shift each picture of a batch (N, C, H, W) by up to `padding` pixels and mirror every second one, at random."""
    n, channels, height, width = x.shape
    padded = F.pad(x, (padding,) * 4).flatten(2)
    shift_y, shift_x = torch.randint(2 * padding + 1, (2, n, 1), device=x.device)
    mirrored = torch.rand(n, 1, device=x.device) < 0.5
    row, column = torch.arange(height, device=x.device), torch.arange(width, device=x.device)
    rows = (shift_y + row) * (width + 2 * padding)
    columns = shift_x + torch.where(mirrored, width - 1 - column, column)
    pixels = (rows[:, :, None] + columns[:, None, :]).flatten(1)  # (N, H·W): which padded pixel goes where
    return padded.gather(2, pixels[:, None].expand(-1, channels, -1)).view_as(x)


def rate(batches: Callable[[], object], pictures: int, rounds: int = 5) -> float:
    """Median pictures a second over some rounds, after one round to warm up."""
    seconds = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        batches()
        seconds.append(time.perf_counter() - start)
    return pictures / sorted(seconds[1:])[rounds // 2]


@record
def main() -> None:
    from torchvision import transforms

    torch.set_num_threads(1)
    whole = Pictures(train=True, size=2048)
    steps = [transforms.ToPILImage(), transforms.RandomCrop(32, padding=2), transforms.RandomHorizontalFlip()]
    one_by_one = transforms.Compose([*steps, transforms.ToTensor(), transforms.Normalize(MEAN, STD)])

    class Single(Dataset):
        def __len__(self) -> int:
            return len(whole)

        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            return one_by_one(whole.x[index]), whole.y[index]

    ours, theirs = DataLoader(whole, 128, shuffle=True, collate_fn=as_is), DataLoader(Single(), 128, shuffle=True)
    batched = rate(lambda: [normalise(augment(x)) for x, _ in ours], len(whole))
    single = rate(lambda: list(theirs), len(whole))
    print(f"pictures a second on one core: {single:,.0f} one by one, {batched:,.0f} in batches")
    report("loader", here(), batched=batched, single=single)


if __name__ == "__main__":
    main()
