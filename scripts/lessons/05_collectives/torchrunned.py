"""Ranks that learn one sine curve, each from its own part: started by torchrun.

Run:  torchrun --standalone --nproc-per-node=2 torchrunned.py
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report


def train(place: Place) -> dict:
    """Learn with averaged gradients; how many points this rank saw, and the error on all."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    model.to(place.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    curve = torch.linspace(-3, 3, 200, device=place.device)
    curve = curve.unsqueeze(1)  # (200, 1)
    x = curve.chunk(place.world_size)[place.rank]
    for _ in range(500):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), x.sin())
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= place.world_size
        optimizer.step()
    error = nn.functional.mse_loss(model(curve), curve.sin())
    return {"seen": len(x), "error": error.item()}


@record
def main() -> None:
    place = here()
    limit = timedelta(seconds=60)
    dist.init_process_group(place.backend, timeout=limit, device_id=place.bound)
    learnt = train(place)
    errors = f"saw {learnt['seen']} of 200 points, error on all {learnt['error']:.5f}"
    print(f"rank {place.rank} of {place.world_size}: {errors}\n", end="")
    report("torchrunned", place, **learnt)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
