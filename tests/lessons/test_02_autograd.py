"""What lesson 02 uses and does not assert: our autograd called twice, drawings without overlaps."""

from itertools import combinations

import matplotlib

import graph

matplotlib.use("agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from scalar import Value, in_order


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
