"""A small residual network for 32×32 pictures. What is in it?

Run:  python model.py
"""

from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


def convolution(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    """(N, inputs, H, W) → (N, outputs, H / stride, W / stride), normalised, negatives cut off."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding=1, bias=False),  # BatchNorm brings a bias of its own
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
            convolution(3, small, kernel=4, stride=2),  # 16×16: a quarter of the pixels is a quarter of the work
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
        return self.head(self.features(x)) / 8  # small scores at first: the network begins unsure, and learns faster


@record
def main() -> None:
    model = ResNet()
    layers = {name: sum(p.numel() for p in layer.parameters()) for name, layer in model.features.named_children()}
    layers = {f"features.{name}": n for name, n in layers.items() if n} | {
        "head": sum(p.numel() for p in model.head.parameters())
    }
    for name, n in layers.items():
        print(f"{name:12}{n:9,} parameters")
    print(f"{'in all':12}{sum(layers.values()):9,} parameters, {4 * sum(layers.values()) / 2**20:.1f} MiB in float32")
    report("model", here(), layers=layers)


if __name__ == "__main__":
    main()
