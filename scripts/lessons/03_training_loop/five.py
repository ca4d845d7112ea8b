"""Exercise: write the five lines. A small network is to learn the sine curve.

Run:  python five.py
"""

import torch
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


@record
def main() -> None:
    place = here()

    torch.manual_seed(0)
    x = torch.linspace(-3, 3, 200, device=place.device).unsqueeze(1)  # (200, 1)
    y = torch.sin(x)
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    model.to(place.device)
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    for _ in range(500):
        # BEGIN SOLUTION
        optimizer.zero_grad()
        output = model(x)
        loss = criterion(output, y)
        loss.backward()
        optimizer.step()
        # STUB loss = criterion(model(x), y)  # measures, and learns nothing
        # END SOLUTION

    print(f"after 500 steps the mean squared error is {loss:.5f}")
    output = model(x)
    curve = {"x": x.flatten().tolist(), "output": output.flatten().tolist()}
    report("five", place, loss=loss.item(), **curve)


if __name__ == "__main__":
    main()
