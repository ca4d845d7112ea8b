"""Four ranks, two ways to cut at once: tensor parallel along the rows, FSDP down the columns.

Then hybrid sharding, and the norm by which gradients are clipped.

Run:  python square.py
      torchrun --standalone --nproc-per-node=4 square.py
"""

import logging
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import parallelize_module

from counter import Collectives
from cuttable import Model, batch, compare, whole
from devices import here, report, start
from planned import PLANS

TEXTS = 8  # in one step, of all ranks
STEPS = 5


def build() -> Model:
    torch.manual_seed(0)  # the same numbers on every rank
    return Model().double()


def shard(model: Model, mesh: DeviceMesh) -> None:
    """FSDP, layer by layer."""
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


def two_d(model: Model, mesh: DeviceMesh) -> None:
    """First tensor parallel, then FSDP over what is left on each rank."""
    for layer in model.layers:
        parallelize_module(layer, mesh["tp"], PLANS["prepared"])
    shard(model, mesh["dp"])


def own_part(part: int, parts: int, seed: int) -> tuple[Tensor, Tensor]:
    tokens, labels = batch(TEXTS, seed)
    return tokens.chunk(parts)[part], labels.chunk(parts)[part]


def train(model: Model, part: int, parts: int) -> dict[str, int]:
    """A few steps; how often each group of ranks called which collective in the last one."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for number in range(STEPS):
        tokens, labels = own_part(part, parts, number)
        optimizer.zero_grad()
        with Collectives() as seen:
            loss = model(tokens, labels)
            loss.backward()
        optimizer.step()
    groups: dict[str, int] = {}
    for call in seen.calls:
        name = f"{call.name} {list(call.ranks)}"
        groups[name] = groups.get(name, 0) + 1
    return groups


def told(model: Model, expected: Model) -> dict:
    """How far its weights are from one process's, and what this rank keeps."""
    gap, kept = compare(model, expected, build())
    query = model.layers[0].attention.query.weight
    local = list(query.to_local().shape)
    return {"gap": gap, "kept": kept, "query": str(query.placements), "local": local}


def whole_norm(gradients: list[Tensor]) -> float:
    """Exercise 4: the norm of all gradients together, on whichever meshes they are."""
    # BEGIN SOLUTION
    by_mesh = {}
    for each in gradients:
        by_mesh.setdefault(getattr(each, "device_mesh", None), []).append(each)
    norms = [whole(nn.utils.get_total_norm(group)) for group in by_mesh.values()]
    return torch.stack(norms).norm().item()
    # STUB return 0.0
    # END SOLUTION


def refusal(call: Callable[[], object]) -> str:
    """What torch says to `call`."""
    try:
        call()
    except (RuntimeError, ValueError) as error:
        return str(error).splitlines()[0]
    return ""


def clipping(mesh: DeviceMesh) -> dict:
    expected = build()
    tokens, labels = batch(TEXTS)
    expected(tokens, labels).backward()
    gradients = [each.grad for each in expected.parameters()]
    truth = nn.utils.get_total_norm(gradients)
    row = build()
    for layer in row.layers:
        parallelize_module(layer, mesh["tp"], PLANS["prepared"])
    row(tokens, labels).backward()
    both = build()
    two_d(both, mesh)
    part = mesh["dp"].get_local_rank()
    parts = mesh["dp"].size()
    tokens, labels = own_part(part, parts, 1)
    both(tokens, labels).backward()
    norms = {"truth": truth.item()}
    for name, model in {"tensor": row, "2-D": both}.items():
        said = refusal(lambda model=model: nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        gradients = [each.grad for each in model.parameters()]
        norms[name] = {"said": said, "norm": whole_norm(gradients)}
    return norms


@record
def main() -> None:
    place = here(gpus=0)  # gloo and the CPU everywhere: what matters is who sends what
    start(place)
    # torch 2.15 notes that a sum along both dimensions takes two all-reduces: no fault here.
    logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)
    columns = min(2, place.world_size)
    shape = (place.world_size // columns, columns)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))
    expected = build()
    train(expected, 0, 1)
    runs = {}
    model = build()
    two_d(model, mesh)
    dp = mesh["dp"]
    groups = train(model, dp.get_local_rank(), dp.size())
    runs["2-D"] = told(model, expected) | {"groups": groups}
    hybrid = build()
    shard(hybrid, mesh)
    groups = train(hybrid, place.rank, place.world_size)
    runs["HSDP"] = told(hybrid, expected) | {"groups": groups}
    clipped = clipping(mesh)
    if place.rank == 0:
        for name, run in runs.items():
            print(f"{name}: gap {run['gap']:.1e}, {run['kept']:,} numbers kept, {run['groups']}")
    report("square", place, runs=runs, clipped=clipped, steps=STEPS)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
