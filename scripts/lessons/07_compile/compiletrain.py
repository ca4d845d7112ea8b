"""A training with torch.compile: how long is the first step, and are the outputs the same?

Run:  python compiletrain.py
"""

import logging
import shutil
import time

import torch
from torch import nn

logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)  # of CUDA, without a GPU
torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
backend = "inductor"  # the default: it writes kernels, and g++ builds them
if shutil.which("g++") is None:
    backend = "aot_eager"
    print("There is no g++ here: the model is captured, but no kernel is written.")

points = torch.randn(4096, 2, device=device)
heights = points.sin().prod(dim=1, keepdim=True)  # a surface to learn

model = nn.Sequential(nn.Linear(2, 256), nn.GELU(), nn.Linear(256, 1)).to(device)
plain = model  # the same weights, not compiled: to compare with, and to save
model = torch.compile(model, backend=backend)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

times = []
for step in range(101):
    began = time.perf_counter()
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(points), heights)
    loss.backward()
    optimizer.step()
    value = loss.item()  # waits until a GPU has finished
    times.append(1000 * (time.perf_counter() - began))
    if step % 50 == 0:
        print(f"step {step:3}: loss {value:.4f}")

print(f"first step {times[0]:,.1f} ms, median of the others {sorted(times[1:])[50]:,.1f} ms")
gap = (model(points) - plain(points)).abs().max()
miss = (model(points) - heights).abs().max()
graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
print(f"graphs captured: {graphs}")
print(f"largest difference from the plain model {gap:.1e}, from the surface {miss:.1e}")
torch.save(plain.state_dict(), "compiletrain.pt")
