"""Will a model fit? Watch two small steps in one process, then add what each way keeps on a rank.

watched = watch(model, model.layers, loss_of, one_example, two_examples)
forecast(watched, "fsdp", ranks=2, batch=8)["total"]       # bytes on a rank
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import nn

from alive import Stage, one_step

RESERVE = 0.15  # of the memory, for what is left out
LEFT_OUT = "CUDA's context, workspaces, nccl's buffers, fragmentation, the optimizer's temporaries"


class Watched(NamedTuple):
    """What two small steps showed."""

    numbers: int  # in all parameters
    units: list[int]  # numbers in the parameters of each unit
    size: int  # bytes of a number while the model computes
    fixed: dict[Stage, float]  # bytes at the worst moment of each stage, for a batch of 0 …
    each: dict[Stage, float]  # … and for every example more


def count(module: nn.Module) -> int:
    """Numbers in its parameters."""
    return sum(parameter.numel() for parameter in module.parameters())


def watch(
    model: nn.Module, units: Sequence[nn.Module], loss_of: Callable, small: tuple, larger: tuple
) -> Watched:
    """Watch a step with each of two batches of different sizes, to tell bytes per example.

    `units` are what FSDP wraps: each runs once in a step, and returns one tensor.
    `loss_of(model, *batch)` is the loss. The first tensor of a batch has the examples as its rows.
    """
    few = one_step(model, units, loss_of, small)
    more = one_step(model, units, loss_of, larger)
    examples = len(small[0])
    added = len(larger[0]) - examples
    each = {}
    fixed = {}
    for stage in few:
        each[stage] = (more[stage] - few[stage]) / added
        fixed[stage] = few[stage] - examples * each[stage]
    numbers = [count(unit) for unit in units]
    size = next(model.parameters()).element_size()
    return Watched(count(model), numbers, size, fixed, each)


def forecast(watched: Watched, way: str, ranks: int, batch: int) -> dict[str, float]:
    """Bytes on a rank at the worst moment of a step with `batch` examples, and what they are for.

    The way is ddp, zero1 or fsdp, the optimizer Adam, and its numbers have 4 bytes.
    """
    share = watched.numbers / ranks
    moments = []
    for stage, bytes_each in watched.each.items():
        if way == "fsdp":
            kept = {"parameters": 4 * share, "Adam": 8 * share}
            kept |= whole(watched, ranks, stage)
        else:
            # DDP's buckets keep the gradients, also between steps.
            kept = dict.fromkeys(("parameters", "gradients"), 4 * watched.numbers)
            own = share if way == "zero1" else watched.numbers  # whose moments this rank keeps
            kept["Adam"] = 8 * own
        kept["activations"] = watched.fixed[stage] + batch * bytes_each
        kept["total"] = sum(kept.values())
        moments.append(kept)
    return max(moments, key=lambda kept: kept["total"])


def whole(watched: Watched, ranks: int, stage: Stage) -> dict[str, float]:
    """Bytes of whole parameters and gradients that FSDP holds on a rank in this stage."""
    units = watched.units
    backward = stage.name != "forward"
    unit = stage.unit
    if unit < 0:  # in no unit: as at the first in forward, behind the last in backward
        unit = len(units) if backward else 0
    near = (unit, unit - 1 if backward else unit + 1)  # the next one is already there
    root = watched.numbers - sum(units)
    gathered = root
    for each in near:
        if 0 <= each < len(units):
            gathered += units[each]
    if not backward:
        return {"gathered": watched.size * gathered}
    gradients = watched.size * root + 4 * sum(units[unit + 1 :]) / ranks
    sent = sum(units[unit + 1 : unit + 2])  # in one piece of 4-byte numbers, until the next is sent
    if stage.name == "end":
        sent = sum(units[unit : unit + 1])
        gradients += watched.size * sent
    return {"gathered": watched.size * gathered, "gradients": gradients + 4 * sent}


def verdict(total: float, memory: float) -> str:
    """fits, tight, or no: with the reserve, only without it, or not even so."""
    if total <= (1 - RESERVE) * memory:
        return "fits"
    return "tight" if total <= memory else "no"
