"""A small network, its weights as one vector, and random batches: for fp32.py and its variants.

Run:  python small.py
"""

import torch
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.utils import parameters_to_vector

from devices import Place, here, report

TOO_LARGE = 1e6  # for fp16


def network(device: torch.device) -> nn.Sequential:
    """x (N, 32) → ten scores each (N, 10); the same start on every rank."""
    torch.manual_seed(0)
    first = nn.Linear(32, 64)
    last = nn.Linear(64, 10)
    model = nn.Sequential(first, nn.ReLU(), last)
    return model.to(device)


def weights(model: nn.Module) -> Tensor:
    """A copy of all weights, as one vector."""
    vector = parameters_to_vector(model.parameters())
    return vector.detach()


def batch(place: Place, bad: bool) -> tuple[Tensor, Tensor]:
    """x (16, 32) and labels (16,); in a bad one the last rank has a number too large for fp16."""
    x = torch.randn(16, 32)
    y = torch.randint(10, (16,))
    last_rank = place.world_size - 1
    if bad and place.rank == last_rank:
        x[0, 0] = TOO_LARGE
    x = x.to(place.device)
    y = y.to(place.device)
    return x, y


@record
def main() -> None:
    place = here()
    model = network(place.device)
    count = weights(model).numel()
    x, y = batch(place, bad=False)
    inputs = tuple(x.shape)
    labels = tuple(y.shape)
    print(f"{count:,} weights, inputs {inputs}, labels {labels}")
    report("small", place, weights=count)


if __name__ == "__main__":
    main()
