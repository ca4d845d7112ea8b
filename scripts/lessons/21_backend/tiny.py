"""A tiny network, the batches of each rank, and a step: what talk.py and alike.py train."""

import torch
from torch import Tensor, nn


def network() -> nn.Sequential:
    """x (N, 20) → (N, 5); the same start on every rank."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 50), nn.Tanh(), nn.Linear(50, 5))


def batch(step: int, rank: int) -> Tensor:
    """What this rank learns from in this step: (8, 20)."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(8, 20, generator=generator)


def loss_of(model: nn.Module, step: int, rank: int) -> Tensor:
    """The mean square of what a model makes of this rank's batch."""
    output = model(batch(step, rank))
    return output.square().mean()


def update(model: nn.Module) -> None:
    """One step of plain SGD."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
    model.zero_grad()
