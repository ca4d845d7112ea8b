"""Slips that people make with tensor parallel: some say something, some do not.

Run:  torchrun --standalone --nproc-per-node=2 slips.py
"""

import warnings
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

from cuttable import CONTEXT, HEADS, WIDTH, Attention, Layer
from devices import here, report
from planned import PLANS


class ViewHeads(Attention):
    """Asks for all heads, of the usual width."""

    def split(self, x: Tensor) -> Tensor:
        texts, tokens, _ = x.shape
        return x.view(texts, tokens, HEADS, self.head_width).transpose(1, 2)


class AnyWidth(Attention):
    """Asks for all heads, of whatever width there is."""

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def layer(kind: type[Attention] = Attention) -> Layer:
    torch.manual_seed(0)  # the same numbers on every rank
    made = Layer().double()
    made.attention.__class__ = kind  # the same weights, another way to split
    return made


def cut(model: Layer, mesh: DeviceMesh) -> Layer:
    return parallelize_module(model, mesh["tp"], PLANS["prepared"])


def outcome(call: Callable[[], object]) -> object:
    """What a call gives, or what torch says to it."""
    try:
        return call()
    except (RuntimeError, ValueError) as error:
        return str(error)


def gap(value: Tensor, expected: Tensor) -> float:
    return ((value - expected).norm() / expected.norm()).item()


def fsdp_first(mesh: DeviceMesh) -> None:
    cut(fully_shard(layer(), mesh=mesh["dp"]), mesh)


def optimizer_first(x: Tensor, mesh: DeviceMesh) -> float:
    """How far a step of an optimizer moves `up`, if it was made before the plan."""
    model = layer()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    cut(model, mesh)
    before = model.mlp.up.weight.full_tensor().detach().clone()
    model(x).square().mean().backward()
    optimizer.step()
    return gap(model.mlp.up.weight.full_tensor().detach(), before)


def misspelt(mesh: DeviceMesh) -> str:
    """The warning for a plan that names a module which does not exist."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parallelize_module(layer(), mesh["tp"], {"mlp.upp": ColwiseParallel()})
    return str(caught[0].message).splitlines()[0] if caught else ""


@record
def main() -> None:
    place = here()._replace(device=torch.device("cpu"), backend="gloo")
    # gloo and the CPU everywhere: so the messages read the same with and without GPUs.
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    shape = (1, place.world_size)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))
    torch.manual_seed(0)
    x = torch.randn(4, CONTEXT, WIDTH, dtype=torch.float64)
    own_batch = x.roll(place.rank, dims=0)  # each rank its own, as in data parallel
    expected = layer()(x)
    with torch.no_grad():
        found = {
            "right": gap(cut(layer(), mesh)(x), expected),
            "heads, loud": outcome(lambda: cut(layer(ViewHeads), mesh)(x)),
            "heads, silent": gap(cut(layer(AnyWidth), mesh)(x), expected),
            "own batch": gap(cut(layer(), mesh)(own_batch), layer()(own_batch)),
            "FSDP first": outcome(lambda: fsdp_first(mesh)),
        }
    found["optimizer first"] = optimizer_first(x, mesh)
    found["misspelt"] = misspelt(mesh)
    if place.rank == 0:
        for name, what in found.items():
            print(f"{name:16}", what if isinstance(what, str) else f"{what:.1e}")
    report("slips", place, found=found)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
