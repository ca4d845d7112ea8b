"""Count the collectives that this rank calls: their names, their order, their bytes, their ranks.

    with Collectives() as seen:
        loss = model(x)
        loss.backward()
    seen.calls      # [Call(name="all_gather", bytes=65536, ranks=(0, 1)), …], in the order of calls
    seen.totals()   # {"all_gather": (number of calls, bytes in all)}

It sees the calls of `torch.distributed`, of DDP and FSDP, and of DTensor (functional collectives),
in forward and in backward. `barrier` and waiting move no data: they are left out.

`bytes` is the size of the *whole* on this rank, not what goes over the wire:
    all_reduce, broadcast, reduce, send, recv    the tensor
    all_gather                                   the output: the parts of all ranks together
    reduce_scatter                               the input: the parts for all ranks together
    gather, scatter                              all parts on the root, one part on the others
    all_to_all                                   the input: all that this rank hands in
In a ring of W ranks, each rank sends (W−1)/W of these bytes for an all_gather or a reduce_scatter,
and 2(W−1)/W of them for an all_reduce.

Run:  python counter.py
      torchrun --standalone --nproc-per-node=2 counter.py
"""

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _resolve_process_group
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from devices import here, report, start

LIBRARIES = ["c10d", "_c10d_functional", "_dtensor"]
# How torch's names begin, less the `_` in front → our name. The longer beginnings come first.
NAMES = {
    "allreduce": "all_reduce",
    "all_reduce": "all_reduce",
    "allgather": "all_gather",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "all_to_all": "all_to_all",
    "shard_dim_alltoall": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "send": "send",
    "isend": "send",
    "recv": "recv",
    "irecv": "recv",
}


class Call(NamedTuple):
    name: str  # one of NAMES' values
    bytes: int  # of the whole, see above
    ranks: tuple[int, ...]  # the group that called


def collective(func) -> str | None:
    """Our name of an operator, if it is a collective."""
    if func.namespace not in LIBRARIES:
        return None
    own_name = func.__name__.lstrip("_")
    for begin, name in NAMES.items():
        if own_name.startswith(begin):
            return name
    return None


def tensors(values: object) -> list[torch.Tensor]:
    """All tensors in `values`, which may be a tensor or lists of them."""
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def size(values: object) -> int:
    """Bytes of all tensors in `values`."""
    return sum(tensor.nbytes for tensor in tensors(values))


def members(values: list) -> tuple[int, ...]:
    """The ranks of the process group that is among the arguments of a collective."""
    boxed = [value for value in values if isinstance(value, torch.ScriptObject)]
    if boxed:  # of c10d: the group comes before the kind of reduction
        group = dist.ProcessGroup.unbox(boxed[0])
    else:  # of DTensor: the group's name is the last word
        words = [value for value in values if isinstance(value, str)]
        group = _resolve_process_group(words[-1])
    return tuple(dist.get_process_group_ranks(group))


class Collectives(TorchDispatchMode):
    """While it is on, every operator of this rank passes through `__torch_dispatch__`."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(each, DTensor) for each in types):
            return NotImplemented  # DTensor first: what it sends comes through here again
        kwargs = kwargs or {}
        output = func(*args, **kwargs)
        name = collective(func)
        if name:
            values = [*args, *kwargs.values()]
            sizes = [size(value) for value in values if tensors(value)]
            whole = sizes[-1] if name == "all_to_all" else max([*sizes, size(output)])
            call = Call(name, whole, members(values))
            self.calls.append(call)
        return output

    def totals(self) -> dict[str, tuple[int, int]]:
        """How many calls of each name, and their bytes, in the order of the first calls."""
        sums: dict[str, tuple[int, int]] = {}
        for call in self.calls:
            count, total = sums.get(call.name, (0, 0))
            sums[call.name] = (count + 1, total + call.bytes)
        return sums


@record
def main() -> None:
    place = here()
    start(place)
    part = torch.ones(1000, device=place.device)
    whole = torch.empty(1000 * place.world_size, device=place.device)
    with Collectives() as seen:
        dist.all_reduce(part)
        dist.all_gather_into_tensor(whole, part)
        dist.broadcast(part, src=0)
        dist.barrier()
    if place.rank == 0:
        for call in seen.calls:
            print(call)
    report("counter", place, calls=seen.calls)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
