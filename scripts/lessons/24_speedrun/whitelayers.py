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
    first = [convolution(inputs, outputs), nn.MaxPool2d(2)]
    first += [norm(outputs), nn.GELU()]
    second = [convolution(outputs, outputs)]
    second += [norm(outputs), nn.GELU()]
    return nn.Sequential(*first, *second)


class Whitened(nn.Module):
    """Pictures (N, 3, 32, 32), normalised → ten scores each."""

    def __init__(self, widths: Sequence[int] = (64, 256, 256)):
        super().__init__()
        small, middle, large = widths
        self.white = nn.Conv2d(3, 24, 2)
        self.white.weight.requires_grad = False
        nn.init.zeros_(self.white.bias)
        layers = [nn.GELU(), block(24, small)]
        layers.append(block(small, middle))
        layers.append(block(middle, large))
        layers += [nn.MaxPool2d(3), nn.Flatten()]
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(large, 10, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        white = self.white(x)
        features = self.features(white)
        return self.head(features) / 9


@torch.no_grad()
def whiten(layer: nn.Conv2d, x: Tensor) -> None:
    """Set the 2×2 filters so that they make patches of pictures x uncorrelated, of equal size."""
    columns = F.unfold(x, 2)  # (N, 12, patches of a picture)
    patches = columns.transpose(1, 2)
    patches = patches.flatten(0, 1)  # (all patches, 12)
    covariance = patches.T @ patches / len(patches)
    variances, directions = torch.linalg.eigh(covariance)
    deviations = (variances + 5e-4).sqrt()
    filters = directions / deviations  # (12, 12), each a column
    filters = filters.T.reshape(12, 3, 2, 2)
    both_signs = torch.cat([filters, -filters])
    layer.weight.copy_(both_signs)


def groups_of(model: Whitened) -> list[dict[str, object]]:
    """Parameters for the optimizer, with their highest learning rates; the first layer's are last.

    The record adds up the losses of a batch. Ours is a mean, so the rates are others.
    """
    biases = []
    others = []
    for parameter in model.features.parameters():
        if parameter.dim() > 1:
            others.append(parameter)
        elif parameter.requires_grad:
            biases.append(parameter)
    others.append(model.head.weight)
    white = [model.white.bias]
    rates = [(others, 1.5), (biases, 96.0), (white, 1.5)]
    groups = []
    for parameters, lr in rates:
        decay = 0.002 / lr
        groups.append({"params": parameters, "lr": lr, "top": lr, "weight_decay": decay})
    return groups


def rate(share: float) -> float:
    """The learning rate, as a part of its top: from 0.2 up to it, then down to 0.07."""
    up = 0.2 + 0.8 * share / 0.23
    down = 1 - 0.93 * (share - 0.23) / 0.77
    return min(up, down)


def numbers_of(model: nn.Module) -> list[Tensor]:
    """Weights and statistics of a model, but not how many batches BatchNorm has counted."""
    tensors = model.state_dict().values()
    return [tensor for tensor in tensors if tensor.is_floating_point()]


def mirror_half(x: Tensor) -> None:
    """Mirror pictures, in place: a coin for each decides."""
    half = torch.rand(len(x), device=x.device) < 0.5
    x[half] = x[half].flip(3)


def shifted(x: Tensor, by: int = 2) -> Tensor:
    """Each picture moved by up to `by` pixels, at random; the edge is reflected."""
    width = x.shape[-1]
    edges = (by, by, by, by)
    padded = F.pad(x, edges, mode="reflect")
    rows = padded.unfold(2, width, 1)
    windows = rows.unfold(3, width, 1)  # (N, 3, places, places, H, W)
    places = 2 * by + 1
    pictures = len(x)
    y_from, x_from = torch.randint(places, (2, pictures), device=x.device)
    numbers = torch.arange(pictures, device=x.device)
    return windows[numbers, :, y_from, x_from]


def views(model: nn.Module, x: Tensor) -> Tensor:
    """Scores from six views: the picture and two shifted by a pixel, each mirrored, too."""
    edges = (1, 1, 1, 1)
    padded = F.pad(x, edges, mode="reflect")
    down_right = padded[:, :, :-2, :-2]
    up_left = padded[:, :, 2:, 2:]
    scores = 0
    for weight, view in [(2, x), (1, down_right), (1, up_left)]:
        mirrored = view.flip(3)
        both = model(view) + model(mirrored)
        scores = scores + weight * both
    return scores


@record
def main() -> None:
    model = Whitened()
    parameters = count(model)
    print(f"{parameters:,} parameters")
    report("whitelayers", here(), parameters=parameters)


if __name__ == "__main__":
    main()
