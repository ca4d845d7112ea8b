"""What one rank hands to the others in a step: pipeline, tensor parallel, and FSDP.

Run:  torchrun --standalone --nproc-per-node=2 wires.py
"""

import copy
from argparse import ArgumentParser

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from counter import Call, Collectives
from devices import Place, here, report, start
from dials import Clock
from pipeline import order, step

LAYERS = 4
WIDTH = 64


class Block(nn.Module):
    """Two matrices, as behind the attention of a transformer; no biases."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.wide(x))
        return x + self.narrow(hidden)


def on_wires(calls: list[Call]) -> int:
    """Bytes that this rank sends in all, if the collectives go around a ring."""
    total = 0
    for call in calls:
        ranks = len(call.ranks)
        whole = call.bytes * (ranks - 1) / ranks
        shares = {"send": call.bytes, "recv": 0, "all_reduce": 2 * whole}
        total += shares.get(call.name, whole)  # all_gather, reduce_scatter
    return round(total)


def count(way: str, model: nn.Sequential, x: Tensor, place: Place) -> dict:
    """The messages of one step: how many of each kind, and how many bytes this rank sends."""
    model = copy.deepcopy(model)
    mesh = init_device_mesh("cpu", (place.world_size,))
    if way == "pipeline":
        rows = len(x)
        size = LAYERS // place.world_size
        begin = size * place.rank
        stage = model[begin : begin + size]
        target = torch.zeros_like(x)
        actions = order("1F1B", place.rank, place.world_size, 4)
        clock = Clock({})
        with Collectives() as seen:
            step(stage, x, target, actions, place, clock)
    else:
        for block in model:
            if way == "tensor":
                plan = {"wide": ColwiseParallel(), "narrow": RowwiseParallel()}
                parallelize_module(block, mesh, plan)
            else:
                fully_shard(block, mesh=mesh)
        if way == "tensor":  # every rank has all rows, as inside a larger model
            own = x.clone().requires_grad_()
            rows = len(own)
        else:
            fully_shard(model, mesh=mesh)
            own = x.chunk(place.world_size)[place.rank]
            rows = len(own) * place.world_size
        with Collectives() as seen:
            output = model(own)
            loss = output.square().mean()
            loss.backward()
    sent = on_wires(seen.calls)
    return {"totals": seen.totals(), "bytes": sent, "rows": rows}


@record
def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[128, 512], help="in a batch")
    args = parser.parse_args()
    place = here(gpus=0)
    torch.set_num_threads(1)
    start(place)
    torch.manual_seed(0)
    blocks = [Block() for _ in range(LAYERS)]
    model = nn.Sequential(*blocks).double()
    weights = model[0].parameters()
    parameters = sum(weight.numel() for weight in weights)

    counts = {}
    for rows in args.rows:
        x = torch.randn(rows, WIDTH, dtype=torch.float64)
        counts[rows] = {}
        for way in ("pipeline", "tensor", "FSDP"):
            counts[rows][way] = count(way, model, x, place)
    if place.rank == 0:
        for rows, ways in counts.items():
            sizes = {way: f"{messages['bytes']:,}" for way, messages in ways.items()}
            print(f"{rows} rows, bytes that rank 0 sends: {sizes}")
    sizes = {"layers": LAYERS, "width": WIDTH, "parameters": parameters}
    report("wires", place, counts=counts, **sizes)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
