"""Sequence parallel and loss parallel: what do they send, and what do they keep for backward?

Run:  python sequence.py
      torchrun --standalone --nproc-per-node=2 sequence.py
"""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

from counter import Collectives
from cuttable import CONTEXT, VOCABULARY, WIDTH, Kept, Model, batch, compare, whole
from devices import here, report, start
from planned import PLANS
from yardstick import apart

TEXTS = 4
PIECE = Shard(1)  # of (text, token, number): each rank has some of the tokens
GATHER = PrepareModuleInput(input_layouts=(PIECE,), desired_input_layouts=(Replicate(),))
SCATTER = RowwiseParallel(output_layouts=PIECE)
# region sequence plan
SEQUENCE_PLAN = PLANS["plain"] | {
    "norm1": SequenceParallel(),
    "attention": GATHER,
    "attention.out": SCATTER,
    "norm2": SequenceParallel(),
    "mlp": GATHER,
    "mlp.down": SCATTER,
}
# endregion


def ends(loss_in_parts: bool) -> dict:
    """The plan for what comes before the layers, and after them."""
    scores = Shard(-1) if loss_in_parts else Replicate()
    head = ColwiseParallel(
        input_layouts=PIECE,
        output_layouts=scores,
        use_local_output=not loss_in_parts,
    )
    return {
        "token": RowwiseParallel(input_layouts=Replicate(), output_layouts=PIECE),
        "position": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(0)),
        "norm": SequenceParallel(),
        "head": head,
    }


def build(way: str, mesh: DeviceMesh | None) -> Model:
    """The same model, cut in one of three ways, or whole if there is no mesh."""
    torch.manual_seed(0)
    model = Model().double()
    if mesh is None:
        return model
    if way == "tensor":
        plan = PLANS["prepared"]
    else:
        plan = SEQUENCE_PLAN
        parallelize_module(model, mesh, ends(way == "sequence + loss"))
    for layer in model.layers:
        parallelize_module(layer, mesh, plan)
    return model


def step(way: str, mesh: DeviceMesh) -> dict:
    """One step: equal to one process's, what it sent, and what it kept for backward."""
    tokens, labels = batch(TEXTS)
    expected = build(way, None)
    alone = expected(tokens, labels)
    alone.backward()

    model = build(way, mesh)
    in_parts = loss_parallel() if way == "sequence + loss" else nullcontext()
    kept = Kept(model)
    with Collectives() as seen, in_parts:
        with kept:
            loss = model(tokens, labels)
        loss.backward()
    gap, numbers = compare(model, expected)
    return {
        "gap": gap,  # of the gradients
        "loss": apart(whole(loss), alone, 2 * alone),  # wrong: added up over two ranks
        "calls": seen.calls,
        "totals": seen.totals(),
        "saved": sum(kept.sizes.values()),
        "kept": numbers,
    }


def train(mesh: DeviceMesh) -> dict:
    """Three steps of AdamW with sequence parallel, beside one process's, and what one sent."""
    models = {"alone": build("sequence", None), "cut": build("sequence", mesh)}
    for model in models.values():
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for number in range(3):
            optimizer.zero_grad()
            tokens, labels = batch(TEXTS, number)
            model(tokens, labels).backward()
            with Collectives() as seen:
                optimizer.step()
    norm = models["cut"].norm.weight.grad
    untrained = build("sequence", None)
    gap, _ = compare(models["cut"], models["alone"], untrained)
    return {"gap": gap, "totals": seen.totals(), "placement": str(norm.placements[0])}


@record
def main() -> None:
    place = here(gpus=0)  # gloo and the CPU everywhere: what matters is who sends what
    start(place)
    mesh = init_device_mesh("cpu", (place.world_size,))
    ways = {way: step(way, mesh) for way in ("tensor", "sequence", "sequence + loss")}
    if place.rank == 0:
        for way, run in ways.items():
            print(f"{way}: {run['totals']}, {run['saved']:,} bytes kept for backward")
    tokens = TEXTS * CONTEXT
    sizes = {"size": tokens * WIDTH * 8, "logits": tokens * VOCABULARY * 8}  # bytes, float64
    sizes |= {"position": CONTEXT * WIDTH * 8, "tokens": tokens}
    report("sequence", place, ways=ways, trained=train(mesh), **sizes)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
