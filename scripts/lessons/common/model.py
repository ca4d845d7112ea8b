"""A small residual network for 32×32 pictures. What is in it?

Run:  python model.py
"""

from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


def convolution(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    """(N, inputs, H, W) → (N, outputs, H / stride, W / stride), normalised, negatives cut off."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding=1, bias=False),  # BatchNorm brings one
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Residual(nn.Module):
    """x + f(x): f learns what to add, and the gradient always has a way around it."""

    def __init__(self, channels: int):
        super().__init__()
        self.f = nn.Sequential(convolution(channels, channels), convolution(channels, channels))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.f(x)


class ResNet(nn.Module):
    """Pictures (N, 3, 32, 32), normalised → ten scores each (N, 10). Small enough for a CPU."""

    def __init__(self, widths: tuple[int, int, int] = (32, 64, 64)):
        super().__init__()
        small, middle, large = widths
        self.features = nn.Sequential(
            # 16×16: a quarter of the pixels and the work
            convolution(3, small, kernel=4, stride=2),
            convolution(small, middle),
            nn.MaxPool2d(2),  # 8×8
            Residual(middle),
            convolution(middle, large),
            nn.MaxPool2d(2),  # 4×4
            Residual(large),
            nn.AdaptiveMaxPool2d(1),
            nn.Flatten(),
        )
        self.head = nn.Linear(large, 10)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.head(self.features(x))
        return scores / 8  # small at first: the network begins unsure, and learns faster


def count(layer: nn.Module) -> int:
    """How many numbers a layer has to learn."""
    return sum(parameter.numel() for parameter in layer.parameters())


@record
def main() -> None:
    model = ResNet()
    layers = {}
    for name, layer in model.features.named_children():
        if count(layer) > 0:  # pooling has nothing to learn
            layers[f"features.{name}"] = count(layer)
    layers["head"] = count(model.head)

    for name, parameters in layers.items():
        print(f"{name:12}{parameters:9,} parameters")
    total = sum(layers.values())
    print(f"{'in all':12}{total:9,} parameters, {4 * total / 2**20:.1f} MiB in float32")
    report("model", here(), layers=layers)


if __name__ == "__main__":
    main()
