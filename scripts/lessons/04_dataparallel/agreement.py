"""Do two models compute the same? Their gradients, and the largest difference between two numbers.

Use:  from agreement import gradients, largest_gap
"""

from torch import Tensor, nn


def gradients(model: nn.Module) -> list[Tensor]:
    return [parameter.grad for parameter in model.parameters()]


def largest_gap(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """The largest difference between two numbers that should be equal."""
    gaps = []
    for our, their in zip(ours, theirs, strict=True):
        differences = (our - their).abs()
        largest = differences.max()
        gaps.append(largest.item())
    return max(gaps)
