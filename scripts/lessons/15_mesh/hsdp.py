"""Hybrid sharding: a model cut over the ranks of a row, with a copy in every row.

Run:  python hsdp.py
      torchrun --standalone --nproc-per-node=2 hsdp.py     # one row of two
      torchrun --standalone --nproc-per-node=4 hsdp.py     # two rows of two
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import fully_shard

from counter import Call, Collectives
from devices import here, report, start
from yardstick import apart

STEPS = 5


class Model(nn.Module):
    """Three layers and their loss."""

    def __init__(self) -> None:
        super().__init__()
        first = nn.Linear(32, 64)
        second = nn.Linear(64, 64)
        third = nn.Linear(64, 8)
        self.layers = nn.ModuleList([first, second, third])

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x).tanh()
        return nn.functional.mse_loss(x, y)


def train(model: Model, part: int, parts: int) -> list[Call]:
    """A few steps, each on this part of the batch; the collectives of the last step's passes."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        x = torch.randn(16, 32, generator=generator, dtype=torch.float64)
        y = torch.randn(16, 8, generator=generator, dtype=torch.float64)
        own_x = x.chunk(parts)[part]
        own_y = y.chunk(parts)[part]
        optimizer.zero_grad()
        with Collectives() as seen:
            loss = model(own_x, own_y)
            loss.backward()
        optimizer.step()
    return seen.calls


@record
def main() -> None:
    # gloo and the CPU everywhere: what matters is who talks to whom.
    place = here(gpus=0)
    start(place)
    columns = min(2, place.world_size)
    rows = place.world_size // columns

    torch.manual_seed(0)
    alone = Model().double()  # as one process would train it, on the whole batch
    untrained = [each.detach().clone() for each in alone.parameters()]
    train(alone, 0, 1)

    torch.manual_seed(0)
    model = Model().double()
    mesh = init_device_mesh("cpu", (rows, columns), mesh_dim_names=("replicate", "shard"))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    calls = train(model, place.rank, place.world_size)

    weights = [each.full_tensor() for each in model.parameters()]
    gap = apart(weights, list(alone.parameters()), untrained)
    kept = sum(each.to_local().numel() for each in model.parameters())
    numbers = sum(each.numel() for each in alone.parameters())
    if place.rank == place.world_size - 1:
        for call in calls:
            print(call)
    report("hsdp", place, calls=calls, gap=gap, kept=kept, numbers=numbers, steps=STEPS)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
