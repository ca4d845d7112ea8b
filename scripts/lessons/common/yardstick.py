"""How far a result is from what it should be: `from yardstick import apart`.

A yardstick that always says 0 looks like success. So this one is shown a wrong result each time,
and raises if it cannot tell it from the right one.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

Numbers = Tensor | Sequence[Tensor]

LARGE = 0.01  # a wrong result has to be this far off, or more


def farthest(mine: Numbers, wanted: Numbers) -> float:
    """The largest difference, divided by the largest number that is wanted; the worst tensor's."""
    if isinstance(mine, Tensor):
        mine, wanted = [mine], [wanted]
    gaps = []
    for own, right in zip(mine, wanted, strict=True):
        assert own.shape == right.shape, f"{tuple(own.shape)} beside {tuple(right.shape)}"
        assert own.data_ptr() != right.data_ptr(), "this compares a tensor with itself"
        gap = (own - right).abs().max() / right.abs().max()
        gaps.append(gap.detach())
    return torch.stack(gaps).max().item()


def apart(mine: Numbers, wanted: Numbers, wrong: Numbers) -> float:
    """How far `mine` is from `wanted`: 0.0 only if equal to the last bit, 1e-7 by fp32's rounding.

    All three are tensors of one shape, or lists of such tensors. `wrong` is what the program would
    have without the step that is in question, such as weights before the training. AssertionError
    if it is not clearly farther off than rounding.
    """
    off = farthest(wrong, wanted)
    assert off > LARGE, f"a wrong result is only {off:.1e} apart: this can tell nothing"
    return farthest(mine, wanted)
