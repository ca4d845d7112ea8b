"""Two ranks learn one curve, and each is shown only half of it. Do they talk to each other?

Run:  torchrun --standalone --nproc-per-node=2 curve.py            # each on its own
      torchrun --standalone --nproc-per-node=2 curve.py --talk     # they average their gradients
"""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # before the ranks meet, or gloo may abort one at the end
from torch import nn

if "RANK" not in os.environ:  # without torchrun: one process, the whole curve
    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
dist.init_process_group("gloo")
rank = dist.get_rank()
ranks = dist.get_world_size()

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
curve = torch.linspace(-3, 3, 200).unsqueeze(1)
x = curve.chunk(ranks)[rank]  # my part

for _ in range(500):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), x.sin())
    loss.backward()
    if "--talk" in sys.argv:
        for parameter in model.parameters():  # <- these
            dist.all_reduce(parameter.grad)  # <- three
            parameter.grad /= ranks  # <- lines
    optimizer.step()

drawn = model(curve).detach()
error = nn.functional.mse_loss(drawn, curve.sin())
print(f"rank {rank}: error on the whole curve {error:.5f}\n", end="")
torch.save(drawn, f"curve{rank}.pt")
dist.destroy_process_group()
