"""FSDP by hand: a layer of which each rank keeps one part. `versus.py` trains with it.

Run:  python versus.py
      torchrun --standalone --nproc-per-node=2 versus.py
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import pad
from torch.nn.utils import parameters_to_vector
from torch.utils.checkpoint import checkpoint


class Whole(torch.autograd.Function):
    """The parts of all ranks, joined; backward turns the gradient of the whole into our part's."""

    @staticmethod
    def forward(context, part: Tensor) -> Tensor:
        length = dist.get_world_size() * len(part)
        whole = part.new_empty(length)
        dist.all_gather_into_tensor(whole, part)
        return whole

    @staticmethod
    def backward(context, gradient: Tensor) -> Tensor:
        gradient = gradient.contiguous()  # for the whole layer, but of this rank's loss alone
        # BEGIN SOLUTION
        part = gradient.new_empty(len(gradient) // dist.get_world_size())
        dist.reduce_scatter_tensor(part, gradient)
        return part / dist.get_world_size()
        # STUB return gradient.chunk(dist.get_world_size())[dist.get_rank()]
        # END SOLUTION


class Sharded(nn.Module):
    """A layer that keeps only this rank's part of its parameters."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.shapes = {name: each.shape for name, each in layer.named_parameters()}
        flat = parameters_to_vector(layer.parameters()).detach()
        missing = -len(flat) % dist.get_world_size()
        flat = pad(flat, (0, missing))  # so that all parts are equal
        part = flat.chunk(dist.get_world_size())[dist.get_rank()]
        self.part = nn.Parameter(part.clone())
        self.empty = [layer.to("meta")]  # shapes without numbers; in a list, so not a submodule

    def compute(self, *inputs: Tensor) -> Tensor:
        whole = Whole.apply(self.part)
        parameters = {}
        for name, shape in self.shapes.items():
            length = shape.numel()
            parameters[name] = whole[:length].view(shape)
            whole = whole[length:]
        return functional_call(self.empty[0], parameters, inputs)

    def forward(self, *inputs: Tensor) -> Tensor:
        # The whole is forgotten after forward. Backward calls `compute` again: it gathers again.
        return checkpoint(self.compute, *inputs, use_reentrant=False)


def shard_by_hand(model: nn.Module) -> nn.Module:
    """Every layer with parameters becomes a Sharded one; a list of layers is gone through."""
    for name, child in list(model.named_children()):
        if isinstance(child, nn.ModuleList):
            shard_by_hand(child)
        else:
            setattr(model, name, Sharded(child))
    return model
