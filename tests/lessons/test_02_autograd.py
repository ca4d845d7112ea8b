"""What lesson 02 uses and does not assert: our autograd called twice, drawings without overlaps."""

from itertools import combinations
from pathlib import Path

import matplotlib
import pytest

import graph

matplotlib.use("agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from course.sources import Course
from scalar import Value, in_order

ROOT = Path(__file__).resolve().parents[2]
LESSON = ROOT / "notebooks" / "src" / "02_autograd.md"
STEPS = ("def g(x):", "def errors(", "h = torch.logspace(")  # the cells that judge each size of h


def deep(a, b):
    """Results used again on several levels, one of them twice by the same operation."""
    c = (a * b + a).tanh()
    d = (c * c).exp() + c
    return d * a + d * (b + c)


def test_two_calls_add_up_as_in_torch() -> None:
    numbers = (0.3, -0.8)
    ours = [Value(number) for number in numbers]
    theirs = [torch.tensor(n, dtype=torch.float64, requires_grad=True) for n in numbers]
    end = deep(*ours)
    right = deep(*theirs)
    for _ in range(2):
        end.backward()
        right.backward(retain_graph=True)
        for value, tensor in zip(ours, theirs, strict=True):
            assert abs(value.grad - tensor.grad) < 1e-13


def test_parents_come_first() -> None:
    order = in_order(deep(Value(0.3), Value(-0.8)))
    assert len(set(order)) == len(order)
    for node in order:
        for parent, _ in node.parents:
            assert order.index(parent) < order.index(node)


def test_no_two_boxes_overlap_and_every_edge_is_drawn() -> None:
    end = deep(Value(0.3), Value(-0.8))
    figure, ax = plt.subplots()
    graph.draw(ax, end, lambda node: node.parents, lambda node: node.sign)
    boxes = [p.get_bbox() for p in ax.patches if isinstance(p, FancyBboxPatch)]
    arrows = [p for p in ax.patches if isinstance(p, FancyArrowPatch)]
    plt.close(figure)
    nodes = in_order(end)
    assert len(boxes) == len(nodes)
    assert len(arrows) == sum(len(node.parents) for node in nodes)
    for box, other in combinations(boxes, 2):
        assert not box.overlaps(other)


def judge_steps(old: str = "", new: str = "") -> None:
    """Run the cells on the size of h, with `old` changed to `new`: their asserts judge."""
    sources = [cell.source for cell in Course(ROOT).sources[LESSON].cells]
    cells = [source for source in sources if any(begin in source for begin in STEPS)]
    text = "\n".join(cells)
    assert len(cells) == 3
    assert old in text
    exec(text.replace(old, new), {"torch": torch})


def test_a_good_h_and_a_lack_of_digits_are_noticed() -> None:
    judge_steps()
    wrong = [
        ("errors(torch.float32)", "errors(torch.float64)"),  # a ratio of 1
        ("errors(torch.float64)", "errors(torch.float32)"),  # the same, and another best h
        ("central=True", "central=False"),  # the best h is a hundredth, the error 800-fold
    ]
    for old, new in wrong:
        with pytest.raises(AssertionError):
            judge_steps(old, new)
