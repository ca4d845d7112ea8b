"""What all ways of training share: the network, the rows, and a witness in the network.

The witness notes each batch that enters the network. No framework can keep that from it.

Run:  python ground.py
"""

import time

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector
from torch.utils.data import TensorDataset

from devices import Place, here

BATCH = 16  # rows of one rank in one step
STEPS = 40
RANKS = 2
FEATURES = 64
# What DDP can be told that would make a step longer or shorter.
TOLD = ["broadcast_buffers", "bucket_bytes_cap", "find_unused_parameters"]
TOLD += ["gradient_as_bucket_view", "static_graph"]


def rows() -> TensorDataset:
    """All rows of one epoch: x (1280, 64) and the class (1280,), one of ten."""
    generator = torch.Generator().manual_seed(1)
    x = 2 * torch.randn(BATCH * RANKS * STEPS, FEATURES, generator=generator)
    teacher = torch.randn(FEATURES, 10, generator=generator)
    scores = x @ teacher
    return TensorDataset(x, scores.argmax(1))


def own_rows(place: Place) -> list[int]:
    """The numbers of this rank's rows, in order: of each global batch the rank's own block."""
    numbers = torch.arange(len(rows()))
    blocks = numbers.view(-1, place.world_size, BATCH)
    own = blocks[:, place.rank].flatten()
    return own.tolist()


class Witness:
    """Notes when a batch enters the network, its first row, and the weights at that moment."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.first: list[int] = []  # the first row's number
        self.weights: list[Tensor] = []  # ahead of the first step, and after it
        self.ddp: dict = {}  # how DDP was told to work, if there is DDP around the network
        self.numbers: dict[float, int] = {}  # a row's first feature → the row's number
        x, _ = rows().tensors
        for number, row in enumerate(x):
            self.numbers[row[0].item()] = number

    def __call__(self, network: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self.times.append(time.perf_counter())
        feature = inputs[0][0, 0].item()
        self.first.append(self.numbers[feature])
        if len(self.weights) < 2:
            weights = parameters_to_vector(network.parameters())
            self.weights.append(weights.detach().clone())
        wrapper = DistributedDataParallel._get_active_ddp_module()
        if wrapper:
            self.ddp = {name: getattr(wrapper, name) for name in TOLD}


def network(witness: Witness) -> nn.Sequential:
    """x (N, 64) → ten scores each (N, 10); the same weights every time."""
    torch.manual_seed(0)
    layers = [nn.Linear(FEATURES, 256), nn.ReLU()]
    layers += [nn.Linear(256, 256), nn.ReLU()]
    layers.append(nn.Linear(256, 10))
    model = nn.Sequential(*layers)
    model.register_forward_pre_hook(witness)
    return model


def main() -> None:
    place = here()
    weights = network(Witness()).parameters()
    count = sum(weight.numel() for weight in weights)
    first = own_rows(place)[:3]
    print(f"{len(rows())} rows, {count:,} weights; this rank begins with {first}")


if __name__ == "__main__":
    main()
