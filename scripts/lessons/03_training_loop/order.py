"""The five lines of a training step in other orders: which of them still learn?

Run:  python order.py
"""

import argparse

import torch
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report
from loader import Pictures, normalise

ORDERS = {
    "right": ["zero_grad", "forward", "loss", "backward", "step"],
    "zero_grad last": ["forward", "loss", "backward", "step", "zero_grad"],
    "no zero_grad": ["forward", "loss", "backward", "step"],
    "step before backward": ["zero_grad", "forward", "loss", "step", "backward"],
    "zero_grad before step": ["forward", "loss", "backward", "zero_grad", "step"],
}


def network() -> nn.Module:
    """Pictures (N, 3, 32, 32) → ten scores each (N, 10)."""
    first = nn.Linear(3072, 64)
    last = nn.Linear(64, 10)
    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), last)


def train(model: nn.Module, order: list[str], steps: int, x: Tensor, y: Tensor) -> list[float]:
    """The loss of each step; a step does the lines of `order` with 128 pictures from x, y."""
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        batch = torch.randint(len(y), (128,), device=y.device)
        for line in order:
            if line == "zero_grad":
                optimizer.zero_grad()
            elif line == "forward":
                output = model(x[batch])
            elif line == "loss":
                loss = criterion(output, y[batch])
            elif line == "backward":
                loss.backward()
            elif line == "step":
                optimizer.step()
        losses.append(loss.item())
    return losses


def weights(model: nn.Module) -> Tensor:
    """A copy of all weights, in one row."""
    row = nn.utils.parameters_to_vector(model.parameters())
    return row.detach()


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    args = parser.parse_args()
    place = here()

    pictures = Pictures(train=True, size=2048)
    x = normalise(pictures.x)
    x = x.to(place.device)
    y = pictures.y.to(place.device)
    curves = {}
    for name, order in ORDERS.items():
        torch.manual_seed(0)  # the same weights and the same batches for every order
        model = network().to(place.device)
        before = weights(model)
        losses = train(model, order, args.steps, x, y)
        difference = weights(model) - before
        moved = difference.norm().item()
        change = f"loss {losses[0]:5.2f} → {losses[-1]:5.2f}"
        print(f"{name:22} {change}, the weights moved by {moved:.3f}")
        curves[name] = {"losses": losses, "moved": moved}
    report("order", place, curves=curves)


if __name__ == "__main__":
    main()
