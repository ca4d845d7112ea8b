"""A small network, its weights as one vector, and random batches: for fp32.py and its variants.

Run:  python small.py
"""

import torch
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report

TOO_LARGE = 1e6  # for fp16


def network(device: torch.device) -> nn.Sequential:
    """x (N, 32) → ten scores each (N, 10); the same start on every rank."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
    return model.to(device)


def weights(model: nn.Module) -> Tensor:
    """A copy of all weights, as one vector."""
    return nn.utils.parameters_to_vector(model.parameters()).detach()


def batch(place: Place, bad: bool) -> tuple[Tensor, Tensor]:
    """x (16, 32) and labels (16,); in a bad one the last rank has a number too large for fp16."""
    x = torch.randn(16, 32)
    y = torch.randint(10, (16,))
    if bad and place.rank == place.world_size - 1:
        x[0, 0] = TOO_LARGE
    return x.to(place.device), y.to(place.device)


@record
def main() -> None:
    place = here()
    count = weights(network(place.device)).numel()
    x, y = batch(place, bad=False)
    print(f"{count:,} weights, inputs {tuple(x.shape)}, labels {tuple(y.shape)}")
    report("small", place, weights=count)


if __name__ == "__main__":
    main()
