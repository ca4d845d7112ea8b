"""The five lines of a training step in other orders: which of them still learn?

Run:  python order.py
"""

import argparse

import torch
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


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    args = parser.parse_args()
    place = here()

    pictures = Pictures(train=True, size=2048)
    inputs = normalise(pictures.x).to(place.device)
    targets = pictures.y.to(place.device)
    curves = {}
    for name, order in ORDERS.items():
        torch.manual_seed(0)  # the same weights and the same batches for every order
        model = torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Linear(3072, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
        )
        model.to(place.device)
        criterion = torch.nn.CrossEntropyLoss()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        before = torch.cat([p.detach().flatten().clone() for p in model.parameters()])
        losses = []
        for _ in range(args.steps):
            batch = torch.randint(len(targets), (128,), device=place.device)
            for line in order:
                if line == "zero_grad":
                    optimizer.zero_grad()
                elif line == "forward":
                    output = model(inputs[batch])
                elif line == "loss":
                    loss = criterion(output, targets[batch])
                elif line == "backward":
                    loss.backward()
                elif line == "step":
                    optimizer.step()
            losses.append(loss.item())
        after = torch.cat([p.detach().flatten() for p in model.parameters()])
        moved = (after - before).norm().item()
        print(f"{name:22} loss {losses[0]:5.2f} → {losses[-1]:5.2f}, the weights moved by {moved:.3f}")
        curves[name] = {"losses": losses, "moved": moved}
    report("order", place, curves=curves)


if __name__ == "__main__":
    main()
