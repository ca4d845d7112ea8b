"""How many bytes are alive in each part of a training step? For `fit.py`.

one_step(model, model.layers, loss_of, batch)     # {Stage("forward", 0): 65536, …}
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple
from weakref import finalize

from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Stage(NamedTuple):
    """A part of a step. Unit -1 is what is in no unit: embeddings, head, loss."""

    name: str  # forward, backward, or the end of a unit's backward
    unit: int


class Alive(TorchDispatchMode):
    """Adds up the bytes of what operations make, until it is freed; the most in each stage."""

    def __init__(self, known: Sequence[Tensor]) -> None:
        super().__init__()
        self.seen = {tensor.untyped_storage()._cdata for tensor in known}
        self.stage = Stage("forward", -1)
        self.bytes = 0
        self.most: dict[Stage, int] = {}

    def free(self, key: int, size: int) -> None:
        self.bytes -= size
        self.seen.discard(key)

    def enter(self, unit: int, *_) -> None:
        name, before = self.stage
        if name == "backward" and before != unit:
            self.most[Stage("end", before)] = self.bytes
        self.stage = Stage(name, unit)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        options = kwargs or {}
        output = function(*args, **options)
        for tensor in tree_leaves(output):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                key = storage._cdata
                if key not in self.seen:  # a view has the storage of another tensor
                    size = storage.nbytes()
                    self.seen.add(key)
                    self.bytes += size
                    finalize(storage, self.free, key, size)
        before = self.most.get(self.stage, 0)
        self.most[self.stage] = max(before, self.bytes)
        return output


def one_step(model: nn.Module, units: Sequence[nn.Module], loss_of: Callable, batch: tuple) -> dict:
    """Forward and backward: bytes alive at the worst moment of each stage, without parameters."""
    known = [*model.parameters(), *model.buffers(), *batch]
    alive = Alive(known)

    def leave(unit: int, module: nn.Module, inputs: tuple, output: Tensor) -> None:
        if alive.stage.name == "forward":
            alive.stage = Stage("forward", -1)
            # Called when backward has the gradient of this output: it enters the unit.
            output.register_hook(lambda _: alive.enter(unit))

    def drop(parameter: Tensor) -> None:
        parameter.grad = None  # how long gradients stay depends on the way to train

    hooks = []
    for parameter in model.parameters():
        hooks.append(parameter.register_post_accumulate_grad_hook(drop))
    for number, unit in enumerate(units):
        before = partial(alive.enter, number)
        after = partial(leave, number)
        hooks.append(unit.register_forward_pre_hook(before))
        hooks.append(unit.register_forward_hook(after))
    with alive:
        loss = loss_of(model, *batch)
        alive.stage = Stage("backward", -1)
        loss.backward()
    alive.most[Stage("end", alive.stage.unit)] = alive.bytes
    for hook in hooks:
        hook.remove()
    return alive.most
