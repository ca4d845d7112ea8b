"""Adam by its formula and in float64, to compare what a program has trained with."""

import torch
from torch import Tensor, nn

FAST = 0.9  # how much of the mean of gradients stays in a step
SLOW = 0.999  # and of the mean of their squares


def train(network: nn.Module, losses, rate: float) -> list[float]:
    """Train a float64 network on `losses`, one function of the network a step; each loss."""
    parameters = list(network.parameters())
    means = [torch.zeros_like(parameter) for parameter in parameters]
    squares = [torch.zeros_like(parameter) for parameter in parameters]
    told = []
    for step, loss_of in enumerate(losses, 1):
        loss = loss_of(network)
        told.append(loss.item())
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter, gradient, mean, square in zip(
                parameters, gradients, means, squares, strict=True
            ):
                mean.mul_(FAST).add_((1 - FAST) * gradient)
                square.mul_(SLOW).add_((1 - SLOW) * gradient**2)
                size = (square / (1 - SLOW**step)).sqrt() + 1e-8
                parameter -= rate * mean / (1 - FAST**step) / size
    return told


def distance(saved: dict[str, Tensor], network: nn.Module) -> float:
    """Largest difference of a file's weights from those of a float64 network."""
    right = network.state_dict()
    assert saved.keys() == right.keys()
    return max((saved[name] - right[name]).abs().max().item() for name in right)
