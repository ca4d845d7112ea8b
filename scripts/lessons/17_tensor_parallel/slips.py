"""Slips that people make with tensor parallel: some say something, some do not.

Run:  torchrun --standalone --nproc-per-node=2 slips.py
"""

import warnings
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

from cuttable import CONTEXT, HEADS, WIDTH, Attention, Layer
from devices import here, report, start
from planned import PLANS
from yardstick import apart


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


def output(x: Tensor, mesh: DeviceMesh, kind: type[Attention] = Attention) -> Tensor:
    """What a layer that is cut makes of x."""
    model = cut(layer(kind), mesh)
    return model(x)


def fsdp_first(mesh: DeviceMesh) -> None:
    model = fully_shard(layer(), mesh=mesh["dp"])
    cut(model, mesh)


def optimizer_first(x: Tensor, mesh: DeviceMesh) -> float:
    """How far a step of an optimizer moves `up`, if it was made before the plan."""
    model = layer()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    cut(model, mesh)
    weight = model.mlp.up.weight
    before = weight.full_tensor().detach().clone()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    after = weight.full_tensor().detach()
    with_step = before - weight.grad.full_tensor()
    return apart(after, before, with_step)


def own_seeds(x: Tensor, rank: int) -> float:
    """How far the last rank's x is from rank 0's after dropout, if each rank has its own seed."""
    torch.manual_seed(rank)  # with one seed, all would drop the same
    dropped = torch.nn.functional.dropout(x, 0.1)
    last = dropped.clone()
    dist.broadcast(last, dist.get_world_size() - 1)
    return apart(last, dropped, wrong=0 * dropped)


def misspelt(mesh: DeviceMesh) -> str:
    """The warning for a plan that names a module which does not exist."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parallelize_module(layer(), mesh["tp"], {"mlp.upp": ColwiseParallel()})
    if not caught:
        return ""
    message = str(caught[0].message)
    return message.splitlines()[0]


@record
def main() -> None:
    # gloo and the CPU everywhere: so the messages read the same with and without GPUs.
    place = here(gpus=0)
    start(place)
    shape = (1, place.world_size)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))
    torch.manual_seed(0)
    x = torch.randn(4, CONTEXT, WIDTH, dtype=torch.float64)
    own_batch = x.roll(place.rank, dims=0)  # each rank its own, as in data parallel
    expected = layer()(x)
    expected_of_own = layer()(own_batch)
    outcomes = {}
    with torch.no_grad():
        outcomes["right"] = apart(output(x, mesh), expected, x)
        outcomes["heads, loud"] = outcome(lambda: output(x, mesh, ViewHeads))
        outcomes["heads, silent"] = apart(output(x, mesh, AnyWidth), expected, x)
        outcomes["own batch"] = apart(output(own_batch, mesh), expected_of_own, own_batch)
        outcomes["FSDP first"] = outcome(lambda: fsdp_first(mesh))
    outcomes["optimizer first"] = optimizer_first(x, mesh)
    outcomes["misspelt"] = misspelt(mesh)
    outcomes["own seeds"] = own_seeds(x, place.rank)
    if place.rank == 0:
        for name, value in outcomes.items():
            text = value if isinstance(value, str) else f"{value:.1e}"
            print(f"{name:16}", text)
    report("slips", place, found=outcomes)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
