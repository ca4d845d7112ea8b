"""Train with gradients that are k versions old, in one process: `from delayed import train`.

Several networks side by side, each with its own seed: weights, data and batches of one are
independent of the others'.
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
    y = (torch.tanh(x @ draw(20, 8) / 2) @ draw(8, CLASSES)).argmax(-1)
    weights = [draw(20, 32) / 20**0.5, draw(32, CLASSES) / 32**0.5]
    for weight in weights:
        weight.requires_grad_()

    def output(rows: Tensor) -> Tensor:
        return torch.tanh(rows @ weights[0]) @ weights[1]

    losses = []
    underway = deque()  # gradients that have been computed and not applied
    for _ in range(steps):
        batch = torch.randint(ROWS, (32,), generator=generator)
        logits = output(x[:, batch]).transpose(1, 2)  # seeds × classes × rows
        loss = cross_entropy(logits, y[:, batch], reduction="none").mean(1)
        losses.append(loss.detach())
        underway.append(torch.autograd.grad(loss.sum(), weights))
        if len(underway) > k:
            gradients = underway.popleft()
            with torch.no_grad():
                for weight, gradient in zip(weights, gradients, strict=True):
                    weight -= lr * gradient

    with torch.no_grad():
        right = output(x).argmax(-1) == y
    return torch.stack(losses), right.double().mean(1)
