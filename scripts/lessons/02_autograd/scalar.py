"""Autograd for single numbers: each result remembers what it was made from, and its slope there.

Use:  from scalar import Value
"""

import math


class Value:
    """A number; `parents` holds pairs (a number it was made from, how fast it changes with it)."""

    def __init__(self, data: float, parents: tuple = (), sign: str = ""):
        self.data = data
        self.parents = parents
        self.sign = sign  # of the operation, for drawings
        self.grad = 0.0

    def __add__(self, other: "Value") -> "Value":
        return Value(self.data + other.data, ((self, 1.0), (other, 1.0)), "+")

    def __mul__(self, other: "Value") -> "Value":
        return Value(self.data * other.data, ((self, other.data), (other, self.data)), "×")

    def tanh(self) -> "Value":
        t = math.tanh(self.data)
        return Value(t, ((self, 1 - t * t),), "tanh")

    def exp(self) -> "Value":
        e = math.exp(self.data)
        return Value(e, ((self, e),), "exp")

    def backward(self) -> None:
        """Tell every number behind this one, in its `grad`, how fast this one changes with it."""
        order = in_order(self)
        for node in order:
            if node.parents:
                node.grad = 0.0  # may be left over from an earlier call
        self.grad += 1.0
        for node in reversed(order):
            for parent, slope in node.parents:
                parent.grad += slope * node.grad


def in_order(end: Value) -> list[Value]:
    """Every number behind `end`, each after all that it was made from; `end` is the last."""
    order = []
    seen = set()

    def visit(node: Value) -> None:
        if node not in seen:
            seen.add(node)
            for parent, _ in node.parents:
                visit(parent)
            order.append(node)

    visit(end)
    return order
