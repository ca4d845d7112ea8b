"""Four habits from DDP, under FSDP: clipping, a scaler, a whole state dict, and a start from one.

Run:  python prefetch.py
      torchrun --standalone --nproc-per-node=2 prefetch.py
"""

import torch
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    set_model_state_dict,
)
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy
from torch.nn.utils import clip_grad_norm_, get_total_norm

from decoder import Decoder
from devices import Place
from versus import batches, make, shard, whole


def clip(model: Decoder, place: Place, ranks: int) -> list[float]:
    """The norm of the gradient before it is clipped to 0.1, and afterwards."""
    x, y = next(batches(place, ranks))
    model(x, y).backward()
    norms = [clip_grad_norm_(model.parameters(), max_norm=0.1)]
    norms.append(get_total_norm([each.grad for each in model.parameters()]))
    if isinstance(model, FSDPModule):  # DTensors: a rank may have only its part of them
        norms = [norm.full_tensor() for norm in norms]
    return [norm.item() for norm in norms]


def scale(place: Place, mesh: DeviceMesh, spoil: bool) -> tuple[bool, float]:
    """One step in fp16 with a scaler: did the head move, and what is the scale afterwards?

    `spoil` plants an inf into the last rank's part of one gradient.
    """
    policy = MixedPrecisionPolicy(param_dtype=torch.float16, reduce_dtype=torch.float32)
    model = shard(make(place).float(), mesh, mp_policy=policy)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(place.device.type, init_scale=1024)
    x, y = next(batches(place, place.world_size))
    scaler.scale(model(x, y)).backward()
    weight = model.head.weight
    if spoil and place.rank == place.world_size - 1:
        weight.grad.to_local()[0, 0] = torch.inf
    before = weight.to_local().clone()
    scaler.step(optimizer)
    scaler.update()
    return not torch.equal(before, weight.to_local()), scaler.get_scale()


def empty(mesh: DeviceMesh, place: Place) -> Decoder:
    """A sharded model that was never whole anywhere: shapes first, then memory for the parts."""
    with torch.device("meta"):
        model = Decoder(width=64, layers=2, length=32).double()
    shard(model, mesh)
    return model.to_empty(device=place.device)


def tried(place: Place, mesh: DeviceMesh) -> dict:
    """What became of each habit."""
    norms = {
        "FSDP": clip(shard(make(place), mesh), place, place.world_size),
        "one process": clip(make(place), place, ranks=1),
    }
    scaled = {"sound": scale(place, mesh, False), "spoilt": scale(place, mesh, True)}

    # The whole model, on rank 0 only, on the CPU: what other programs can load.
    model = shard(make(place), mesh)
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state = get_model_state_dict(model, options=options)

    # And back: rank 0 has the file, the others get their parts from rank 0.
    copy = empty(mesh, place)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(copy, state if place.rank == 0 else {}, options=options)
    back = (whole(copy) - whole(model)).abs().max().item()
    return {"norms": norms, "scaled": scaled, "entries": len(state), "back": back}
