"""Pictures for machines without CIFAR-10: ten shapes, each in a colour of its own.

`from shapes import generate`
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import interpolate


def generate(train: int = 10_000, test: int = 1_999) -> dict[str, tuple[Tensor, Tensor]]:
    """Ten shapes in colour, each shifted, mixed with a blurred pattern, covered with noise."""
    rng = torch.Generator()
    rng.manual_seed(0)
    dots = torch.randn(50, 3, 6, 6, generator=rng)
    blurred = interpolate(dots, size=48, mode="bicubic")
    shapes = ten_shapes(48)
    patterns = torch.cat([shapes, blurred])
    # (pattern, channel, y, x, 32, 32): each 32×32 part of a pattern, y and x from 0 to 16.
    strips = patterns.unfold(2, 32, 1)
    windows = strips.unfold(3, 32, 1)
    train_set = draw(windows, train, rng)
    test_set = draw(windows, test, rng)
    return {"train": train_set, "test": test_set}


def ten_shapes(size: int) -> Tensor:
    """(10, 3, size, size): disc, ring, cross and two kinds of stripes, then again; ten colours."""
    middle = (size - 1) / 2
    line = torch.arange(size) - middle
    y, x = torch.meshgrid(line, line, indexing="ij")
    far = torch.hypot(x, y)
    far_x = x.abs()
    far_y = y.abs()
    inside = (far_x < 12) & (far_y < 12)
    disc = far < 10
    ring = (far > 7) & (far < 12)
    bars = (far_x < 3) | (far_y < 3)
    cross = inside & bars
    even_rows = y // 4 % 2 == 0
    even_columns = x // 4 % 2 == 0
    rows = inside & even_rows
    columns = inside & even_columns
    five = [disc, ring, cross, rows, columns]
    shapes = torch.stack(five + five)  # (10, size, size)
    of_shapes = torch.arange(10) / 10
    of_channels = torch.arange(3) / 3
    turns = of_shapes[:, None] + of_channels  # around the wheel of colours
    angles = 2 * math.pi * turns
    colours = 1.8 * torch.cos(angles)  # (10, 3)
    return colours[:, :, None, None] * shapes[:, None]


def draw(windows: Tensor, n: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """`n` pictures (n, 3, 32, 32) uint8 and labels (n,) int64: which of the ten shapes."""
    x = torch.empty(n, 3, 32, 32, dtype=torch.uint8)
    y = torch.randint(10, (n,), generator=rng)
    other = torch.randint(10, 60, (n,), generator=rng)  # the blurred pattern that is mixed in
    places = torch.randint(17, (4, n), generator=rng)
    for part in torch.arange(n).split(500):  # a few at a time, to save memory
        top, left, other_top, other_left = places[:, part]
        labels = y[part]
        shape = windows[labels, :, top, left]
        mixed_in = other[part]
        pattern = windows[mixed_in, :, other_top, other_left]
        mix = shape + pattern
        noise = torch.randn(mix.shape, generator=rng)
        pictures = 128 + 30 * mix + 25 * noise
        clamped = pictures.clamp(0, 255)
        x[part] = clamped.to(torch.uint8)
    return x, y
