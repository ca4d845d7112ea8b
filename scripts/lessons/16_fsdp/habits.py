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
from yardstick import apart


def clip(model: Decoder, place: Place, ranks: int) -> list[float]:
    """The norm of the gradient before it is clipped to 0.1, and afterwards."""
    x, y = next(batches(place, ranks))
    loss = model(x, y)
    loss.backward()
    before = clip_grad_norm_(model.parameters(), max_norm=0.1)
    gradients = [each.grad for each in model.parameters()]
    after = get_total_norm(gradients)
    if isinstance(model, FSDPModule):  # DTensors: a rank may have only its part of them
        before = before.full_tensor()
        after = after.full_tensor()
    return [before.item(), after.item()]


def scale(place: Place, mesh: DeviceMesh, spoil: bool) -> tuple[bool, float]:
    """One step in fp16 with a scaler: did the head move, and what is the scale afterwards?

    `spoil` plants an inf into the last rank's part of one gradient.
    """
    policy = MixedPrecisionPolicy(param_dtype=torch.float16, reduce_dtype=torch.float32)
    model = make(place).float()
    shard(model, mesh, mp_policy=policy)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(place.device.type, init_scale=1024)
    x, y = next(batches(place, place.world_size))
    loss = model(x, y)
    scaled = scaler.scale(loss)
    scaled.backward()
    weight = model.head.weight
    last_rank = place.world_size - 1
    if spoil and place.rank == last_rank:
        part = weight.grad.to_local()
        part[0, 0] = torch.inf
    before = weight.to_local().clone()
    scaler.step(optimizer)
    scaler.update()
    after = weight.to_local()
    moved = not torch.equal(before, after)
    return moved, scaler.get_scale()


def empty(mesh: DeviceMesh, place: Place) -> Decoder:
    """A sharded model that was never whole anywhere: shapes first, then memory for the parts."""
    with torch.device("meta"):
        model = Decoder(width=64, layers=2, length=32)
        model.double()
    shard(model, mesh)
    return model.to_empty(device=place.device)


def tried(place: Place, mesh: DeviceMesh) -> dict:
    """What became of each habit."""
    sharded = shard(make(place), mesh)
    norms = {"FSDP": clip(sharded, place, place.world_size)}
    alone = make(place)
    norms["one process"] = clip(alone, place, ranks=1)
    scaled = {"sound": scale(place, mesh, spoil=False)}
    scaled["spoilt"] = scale(place, mesh, spoil=True)

    # The whole model, on rank 0 only, on the CPU: what other programs can load.
    model = shard(make(place), mesh)
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state = get_model_state_dict(model, options=options)

    # And back: rank 0 has the file, the others get their parts from rank 0.
    copy = empty(mesh, place)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    own_state = {}
    if place.rank == 0:
        own_state = state
    set_model_state_dict(copy, own_state, options=options)
    expected = whole(model)
    other_order = expected.flip(0)
    facts = {"norms": norms, "scaled": scaled}
    facts["entries"] = len(state)
    facts["back"] = apart(whole(copy), expected, other_order)
    return facts
