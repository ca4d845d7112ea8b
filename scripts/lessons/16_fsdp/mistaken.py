"""Three mistakes with FSDP, and what came of each.

Run:  python ledger.py
      torchrun --standalone --nproc-per-node=2 ledger.py --limit 2
"""

from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.optim import AdamW

from decoder import WORDS, Decoder
from devices import Place
from versus import shard


def make(mesh: DeviceMesh) -> Decoder:
    """The same weights on every rank."""
    torch.manual_seed(0)
    return Decoder(width=32, layers=2, length=16).to(mesh.device_type)


def complaint(call: Callable) -> str:
    """What `call` says when it fails."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return ""


def moved(model: Decoder, optimizer: AdamW, x: Tensor) -> float:
    """How far one step moves the weight that moves most."""
    before = [each.full_tensor() for each in model.parameters()]
    loss = model(x, x)
    loss.backward()
    optimizer.step()
    after = [each.full_tensor() for each in model.parameters()]
    distances = []
    for old, new in zip(before, after, strict=True):
        distance = (new - old).abs().max()
        distances.append(distance.item())
    return max(distances)


def too_early(mesh: DeviceMesh, x: Tensor) -> float:
    """The optimizer is made before the model is sharded."""
    model = make(mesh)
    optimizer = AdamW(model.parameters(), lr=0.01)
    shard(model, mesh)
    return moved(model, optimizer, x)


def in_time(mesh: DeviceMesh, x: Tensor) -> float:
    """The optimizer is made afterwards."""
    model = shard(make(mesh), mesh)
    optimizer = AdamW(model.parameters(), lr=0.01)
    return moved(model, optimizer, x)


def rank_0_alone(place: Place, limit: float) -> str:
    """Only rank 0 asks for a whole tensor. (gloo says so; nccl would end the process.)"""
    ranks = list(range(place.world_size))
    group = dist.new_group(backend="gloo", timeout=timedelta(seconds=limit))
    mesh = DeviceMesh.from_group(group, "cpu", mesh=ranks)
    table = distribute_tensor(torch.arange(6.0), mesh, [Shard(0)])
    message = ""
    if place.rank == 0:
        message = complaint(table.full_tensor)
    dist.barrier()  # of the default group: the others wait here
    return message


def mistakes(place: Place, limit: float) -> dict:
    """What came of each mistake: how far a step moves the model, and what torch says."""
    mesh = init_device_mesh(place.device.type, (place.world_size,))
    generator = torch.Generator().manual_seed(place.rank)
    x = torch.randint(WORDS, (2, 16), generator=generator).to(place.device)
    steps = {
        "before fully_shard": too_early(mesh, x),
        "after fully_shard": in_time(mesh, x),
    }
    model = shard(make(mesh), mesh)
    messages = {"forward": complaint(lambda: model.forward(x, x))}
    messages["rank 0 alone"] = rank_0_alone(place, limit)
    return {"moved": steps, "said": messages}
