"""A training with nn.DataParallel: one process, and every GPU that the machine has.

Run:  python dptrain.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
gpus = torch.cuda.device_count()

# Points of a square, and the class of each: is it inside the circle?
points = 2 * torch.rand(4096, 2) - 1
inside = (points.norm(dim=1) < 0.8).long()
loader = DataLoader(TensorDataset(points, inside), batch_size=64, shuffle=True)

model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 2))
model.to(device)
if gpus > 1:
    model = nn.DataParallel(model)  # the line that puts every GPU to work
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

for epoch in range(3):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        scores = model(x.to(device))  # on two GPUs, each computes half of the rows
        loss = nn.functional.cross_entropy(scores, y.to(device))
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}, GPUs {gpus}, mean loss {total / len(loader):.4f}")

inner = getattr(model, "module", model)  # DataParallel keeps the model as .module
torch.save(inner.state_dict(), "dptrain.pt")
