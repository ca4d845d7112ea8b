"""The network of a published record (arXiv:2404.00498), and what its pictures go through.

A first layer whose frozen filters whiten, layers that begin as the identity, six views in the test.

Run:  python whitelayers.py
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn import functional as F

from devices import here, report
from model import count


def norm(channels: int) -> nn.BatchNorm2d:
    """BatchNorm with a bias to learn, and no scale."""
    layer = nn.BatchNorm2d(channels, eps=1e-12, momentum=0.4)
    layer.weight.requires_grad = False
    return layer


def convolution(inputs: int, outputs: int) -> nn.Conv2d:
    """A 3×3 convolution whose first outputs are its inputs, unchanged."""
    layer = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    with torch.no_grad():
        nn.init.dirac_(layer.weight[:inputs])
    return layer


def block(inputs: int, outputs: int) -> nn.Sequential:
    """(N, inputs, H, W) → (N, outputs, H / 2, W / 2)."""
    first = [convolution(inputs, outputs), nn.MaxPool2d(2), norm(outputs), nn.GELU()]
    second = [convolution(outputs, outputs), norm(outputs), nn.GELU()]
    return nn.Sequential(*first, *second)


class Whitened(nn.Module):
    """Pictures (N, 3, 32, 32), normalised → ten scores each."""

    def __init__(self, widths: Sequence[int] = (64, 256, 256)):
        super().__init__()
        small, middle, large = widths
        self.white = nn.Conv2d(3, 24, 2)
        self.white.weight.requires_grad = False
        nn.init.zeros_(self.white.bias)
        blocks = [block(24, small), block(small, middle), block(middle, large)]
        self.features = nn.Sequential(nn.GELU(), *blocks, nn.MaxPool2d(3), nn.Flatten())
        self.head = nn.Linear(large, 10, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(self.white(x))) / 9


@torch.no_grad()
def whiten(layer: nn.Conv2d, x: Tensor) -> None:
    """Set the 2×2 filters so that they make patches of pictures x uncorrelated, of equal size."""
    patches = F.unfold(x, 2).transpose(1, 2).flatten(0, 1)  # (patches, 12)
    covariance = patches.T @ patches / len(patches)
    sizes, directions = torch.linalg.eigh(covariance)
    filters = (directions / (sizes + 5e-4).sqrt()).T.reshape(12, 3, 2, 2)
    layer.weight.copy_(torch.cat([filters, -filters]))


def groups_of(model: Whitened) -> list[dict[str, object]]:
    """Parameters for the optimizer, with their highest learning rates; the first layer's are last.

    The record adds up the losses of a batch. Ours is a mean, so the rates are others.
    """
    parts = list(model.features.parameters())
    biases = [each for each in parts if each.dim() == 1 and each.requires_grad]
    others = [each for each in parts if each.dim() > 1] + [model.head.weight]
    groups = []
    for parameters, lr in ((others, 1.5), (biases, 96.0), ([model.white.bias], 1.5)):
        groups.append({"params": parameters, "lr": lr, "top": lr, "weight_decay": 0.002 / lr})
    return groups


def shifted(x: Tensor, by: int = 2) -> Tensor:
    """Each picture moved by up to `by` pixels, at random; the edge is reflected."""
    width = x.shape[-1]
    padded = F.pad(x, (by,) * 4, mode="reflect")
    windows = padded.unfold(2, width, 1).unfold(3, width, 1)  # (N, 3, 2·by + 1, 2·by + 1, H, W)
    y_from, x_from = torch.randint(2 * by + 1, (2, len(x)), device=x.device)
    numbers = torch.arange(len(x), device=x.device)
    return windows[numbers, :, y_from, x_from]


def views(model: nn.Module, x: Tensor) -> Tensor:
    """Scores from six views: the picture and two shifted by a pixel, each mirrored, too."""
    padded = F.pad(x, (1,) * 4, mode="reflect")
    scores = 0
    for weight, view in ((2, x), (1, padded[:, :, :-2, :-2]), (1, padded[:, :, 2:, 2:])):
        scores = scores + weight * (model(view) + model(view.flip(3)))
    return scores


@record
def main() -> None:
    parameters = count(Whitened())
    print(f"{parameters:,} parameters")
    report("whitelayers", here(), parameters=parameters)


if __name__ == "__main__":
    main()
