"""Train with gradients that are k versions old, in one process: `from delayed import train`.

Several networks side by side, each with weights and data of its own; their batches have the
same row numbers.
"""

from collections import deque

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

torch.set_num_threads(1)  # for tensors this small, a second thread would only wait

ROWS = 1024
CLASSES = 4


def train(k: int, lr: float, seeds: int = 5, steps: int = 400) -> tuple[Tensor, Tensor]:
    """Losses of each batch (steps × seeds), and the share of right answers at the end (seeds)."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(seeds, *shape, generator=generator, dtype=torch.float64)

    # A random network decides the classes, and another one has to learn them.
    x = draw(ROWS, 20)
    hidden = torch.tanh(x @ draw(20, 8) / 2)
    scores = hidden @ draw(8, CLASSES)
    y = scores.argmax(-1)
    first = draw(20, 32) / 20**0.5
    second = draw(32, CLASSES) / 32**0.5
    weights = [first, second]
    for weight in weights:
        weight.requires_grad_()

    def output(rows: Tensor) -> Tensor:
        hidden = torch.tanh(rows @ first)
        return hidden @ second

    losses = []
    underway = deque()  # gradients that have been computed and not applied
    for _ in range(steps):
        batch = torch.randint(ROWS, (32,), generator=generator)
        logits = output(x[:, batch]).transpose(1, 2)  # seeds × classes × rows
        row_losses = cross_entropy(logits, y[:, batch], reduction="none")  # seeds × rows
        loss = row_losses.mean(1)
        losses.append(loss.detach())
        newest = torch.autograd.grad(loss.sum(), weights)
        underway.append(newest)
        if len(underway) > k:
            gradients = underway.popleft()
            with torch.no_grad():
                for weight, gradient in zip(weights, gradients, strict=True):
                    weight -= lr * gradient

    with torch.no_grad():
        right = output(x).argmax(-1) == y
    share = right.double().mean(1)
    return torch.stack(losses), share
