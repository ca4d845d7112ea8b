"""What lesson 02 uses and does not assert itself: our autograd when called twice, and drawings without overlaps."""

from itertools import combinations

import matplotlib

import graph

matplotlib.use("agg")
import matplotlib.pyplot as plt
import torch

from scalar import Value, in_order


def deep(a, b):
    """Results used again on several levels, one of them twice by the same operation."""
    c = (a * b + a).tanh()
    d = (c * c).exp() + c
    return d * a + d * (b + c)


def test_two_calls_add_up_as_in_torch() -> None:
    ours, theirs = [Value(0.3), Value(-0.8)], [torch.tensor(v, dtype=torch.float64) for v in (0.3, -0.8)]
    end, right = deep(*ours), deep(*(v.requires_grad_() for v in theirs))
    for _ in range(2):
        end.backward()
        right.backward(retain_graph=True)
        for one, two in zip(ours, theirs, strict=True):
            assert abs(one.grad - two.grad) < 1e-13


def test_parents_come_first() -> None:
    order = in_order(deep(Value(0.3), Value(-0.8)))
    assert len(set(order)) == len(order)
    assert all(order.index(parent) < order.index(node) for node in order for parent, _ in node.parents)


def test_no_two_boxes_overlap_and_every_edge_is_drawn() -> None:
    end = deep(Value(0.3), Value(-0.8))
    figure, ax = plt.subplots()
    graph.draw(ax, end, lambda node: node.parents, lambda node: node.sign)
    boxes = [p.get_bbox() for p in ax.patches if isinstance(p, matplotlib.patches.FancyBboxPatch)]
    arrows = [p for p in ax.patches if isinstance(p, matplotlib.patches.FancyArrowPatch)]
    plt.close(figure)
    assert len(boxes) == len(in_order(end)) and len(arrows) == sum(len(node.parents) for node in in_order(end))
    assert not any(one.overlaps(two) for one, two in combinations(boxes, 2))
