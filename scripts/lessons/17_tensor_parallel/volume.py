"""Tensor parallel and FSDP on the same layers and batches: how many bytes does a rank send?

Run:  python volume.py
      torchrun --standalone --nproc-per-node=2 volume.py --texts 2 4 8 16
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import parallelize_module

from counter import Call, Collectives
from cuttable import CONTEXT, WIDTH, Layer
from devices import here, report, start
from planned import PLANS

LAYERS = 2


def sent(calls: list[Call], ranks: int) -> float:
    """Bytes that one rank sends if every collective goes round a ring."""
    rounds = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}
    total = 0
    for call in calls:
        around = rounds[call.name] * call.bytes  # a rank leaves out one of its pieces
        total += around * (ranks - 1) / ranks
    return total


def tensor_parallel(mesh: DeviceMesh) -> nn.Sequential:
    layers = [Layer() for _ in range(LAYERS)]
    model = nn.Sequential(*layers)
    for layer in model:
        parallelize_module(layer, mesh, PLANS["prepared"])
    return model


def fsdp(mesh: DeviceMesh) -> nn.Sequential:
    layers = [Layer() for _ in range(LAYERS)]
    model = nn.Sequential(*layers)
    for layer in model:
        fully_shard(layer, mesh=mesh, reshard_after_forward=True)
    return fully_shard(model, mesh=mesh)


def step(model: nn.Sequential, texts: int) -> tuple[list[Call], int]:
    """The collectives of one step on so many texts, and its tokens."""
    x = torch.randn(texts, CONTEXT, WIDTH, requires_grad=True)
    with Collectives() as seen:
        loss = model(x).square().mean()
        loss.backward()
    return seen.calls, x.shape[0] * x.shape[1]


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, nargs="+", default=[2, 4, 8, 16])
    args = parser.parse_args()
    place = here(gpus=0)  # gloo and the CPU everywhere: what matters is who sends what
    start(place)
    ranks = place.world_size
    mesh = init_device_mesh("cpu", (ranks,))
    torch.manual_seed(0)
    ways = {"tensor parallel": tensor_parallel(mesh), "FSDP": fsdp(mesh)}

    volumes: dict[str, list[float]] = {}
    tokens: dict[str, list[int]] = {}
    calls = {}
    for name, model in ways.items():
        volumes[name] = []
        tokens[name] = []
        # All ranks of tensor parallel see the whole batch, those of FSDP a part of it.
        parts = 1 if name == "tensor parallel" else ranks
        for texts in args.texts:
            calls[name], own_tokens = step(model, texts // parts)
            tokens[name].append(own_tokens * parts)
            volumes[name].append(sent(calls[name], ranks) / LAYERS)
        if place.rank == 0:
            print(f"{name}: {[call.name for call in calls[name]]}")
    numbers = sum(each.numel() for each in Layer().parameters())
    facts = {"width": WIDTH, "layers": LAYERS, "numbers": numbers, "tokens_each": tokens}
    report("volume", place, tokens=tokens["FSDP"], volumes=volumes, calls=calls, **facts)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
