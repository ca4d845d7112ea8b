"""Networks, and trainings on random numbers, for ways.py."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from loader import augment, normalise
from model import Residual, ResNet, convolution


def resnet9(width: int = 16) -> nn.Sequential:
    """The network of the first CIFAR-10 speed records, where the first layer has 64 channels."""
    return nn.Sequential(
        convolution(3, width),
        convolution(width, 2 * width),
        nn.MaxPool2d(2),
        Residual(2 * width),
        convolution(2 * width, 4 * width),
        nn.MaxPool2d(2),
        convolution(4 * width, 8 * width),
        nn.MaxPool2d(2),
        Residual(8 * width),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(8 * width, 10),
    )


def small_cnn(width: int = 16) -> nn.Sequential:
    return nn.Sequential(
        convolution(3, width),
        nn.MaxPool2d(2),
        convolution(width, 2 * width),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * width * 8 * 8, 10),
    )


def mlp(width: int = 1024, layers: int = 8) -> nn.Sequential:
    """x (N, 1024) → (N, 1024): 34 MB of gradients, and little to compute for each of them."""
    parts: list[nn.Module] = []
    for _ in range(layers):
        parts += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def pictures(batch: int) -> Tensor:
    """New pictures (batch, 3, 32, 32), shifted, mirrored and normalised; channels last."""
    x = torch.randint(256, (batch, 3, 32, 32), dtype=torch.uint8)
    return normalise(augment(x))


def vectors(batch: int) -> Tensor:
    """(batch, 1024)"""
    return torch.randn(batch, 1024)


@dataclass(frozen=True)
class Network:
    make: Callable[[], nn.Module]
    inputs: Callable[[int], Tensor]  # for a batch of so many
    steps: int  # in a round, so that a turn takes some tenths of a second


NETWORKS = {
    "ResNet": Network(ResNet, pictures, steps=2),
    "ResNet-9": Network(resnet9, pictures, steps=2),
    "small CNN": Network(small_cnn, pictures, steps=10),
    "MLP": Network(mlp, vectors, steps=4),
}


def unwrapped(model: nn.Module) -> nn.Module:
    """The model as it is: it talks to nobody."""
    return model


def tuned(model: nn.Module, group: dist.ProcessGroup | None = None) -> nn.Module:
    """DDP as lesson 09 leaves it (`tuned` in fast.py), over any process group."""
    options = {"gradient_as_bucket_view": True, "static_graph": True}
    ddp_model = DistributedDataParallel(model, process_group=group, **options)
    ddp_model.broadcast_buffers = False
    return ddp_model


class Training:
    """Training steps as the lessons' programs take them."""

    def __init__(
        self,
        model: nn.Module,
        inputs: Callable[[int], Tensor],
        wrap: Callable[[nn.Module], nn.Module] = unwrapped,
    ):
        self.optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
        self.run = wrap(model)
        self.inputs = inputs

    def steps(self, batch: int, number: int = 1) -> None:
        """So many steps, each on a batch of so many examples."""
        for _ in range(number):
            x = self.inputs(batch)
            y = torch.randint(10, (batch,))
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.run(x), y)
            loss.backward()
            self.optimizer.step()
