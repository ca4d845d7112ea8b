"""The smallest DDP: two ranks, each with half of every batch, train one model.

Run:  python first.py
      torchrun --standalone --nproc-per-node=2 first.py
"""

import os

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # before there is a group, or a rank may abort at the end
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
if "RANK" not in os.environ:  # started without torchrun: the only rank
    os.environ |= alone | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}

if torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", 1)):
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)  # 1. my GPU
    dist.init_process_group("nccl", device_id=device)  # 2. meet the others
else:
    device = torch.device("cpu")
    dist.init_process_group("gloo")
rank = dist.get_rank()

points = torch.linspace(-3, 3, 256).unsqueeze(1)
data = TensorDataset(points, points.sin())
sampler = DistributedSampler(data)  # 3. my share
loader = DataLoader(data, 32 // dist.get_world_size(), sampler=sampler)

model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
ddp_model = DistributedDataParallel(model)  # 4. average gradients
optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.1)

for epoch in range(30):
    sampler.set_epoch(epoch)  # 5. a new order
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(ddp_model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
    if epoch % 10 == 9:
        weight = model[2].weight[0, 0]
        seen = f"{len(loader)} steps, last point {x[-1, 0]:+.2f}, loss {loss:.4f}"
        print(f"rank {rank}, epoch {epoch}: {seen}, a weight {weight:.6f}\n", end="")

if rank == 0:  # 6. one rank saves
    torch.save(model.state_dict(), "first.pt")
dist.destroy_process_group()  # 7. say goodbye
