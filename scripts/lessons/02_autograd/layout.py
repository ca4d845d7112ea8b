"""Where the boxes and lines of a graph go: in rows, and from left to right without overlapping.

Use:  from layout import connect, ports, rows, spread
"""

from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

Edges = Callable[[object], list[tuple]]  # node → [(next node, detail of the edge), …]


class Bend:
    """Where a line crosses a row between its two boxes."""

    def __init__(self, row: int):
        self.row = row


class Line(NamedTuple):
    points: list  # a node, the bends on the way, the next node
    detail: object


def rows(end: object, edges: Edges) -> dict[object, int]:
    """Row of every node behind `end`: below all that lead to it; inputs share the last row."""
    order = []

    def visit(node: object) -> None:
        if node not in order:
            for other, _ in edges(node):
                visit(other)
            order.append(node)

    visit(end)
    row = dict.fromkeys(reversed(order), 0)
    for node in row:
        below = row[node] + 1
        for other, _ in edges(node):
            row[other] = max(row[other], below)
    last = max(row.values())
    for node in row:
        if not edges(node):
            row[node] = last
    return row


def connect(row: dict[object, int], edges: Edges) -> list[Line]:
    """A line for every edge, with a bend in every row between its two nodes."""
    lines = []
    for node in row:
        for other, detail in edges(node):
            between = range(row[node] + 1, row[other])
            bends = [Bend(height) for height in between]
            points = [node, *bends, other]
            lines.append(Line(points, detail))
    return lines


def neighbours(lines: list[Line]) -> dict[object, list]:
    """Of every node and bend, those before and after it on its lines."""
    near = defaultdict(list)
    for line in lines:
        for above, below in pairwise(line.points):
            near[above].append(below)
            near[below].append(above)
    return near


def middle(point: object, near: list, x: dict, stiff: int) -> float:
    """The middle of a point's neighbours; from bend to bend, a line pulls `stiff` times as hard."""
    places = []
    weights = []
    for other in near:
        inside = isinstance(point, Bend) and isinstance(other, Bend)
        places.append(x[other])
        weight = stiff if inside else 1
        weights.append(weight)
    return fmean(places, weights)


def apart(level: list, wishes: dict) -> dict[object, float]:
    """Places for the points of one row, left to right: as they wish, but with room between them."""
    x = dict(wishes)
    for left, right in pairwise(level):
        room = 0.3
        for point in (left, right):
            if not isinstance(point, Bend):
                room += 0.5  # half a box, and a little more
        nearest = x[left] + room
        x[right] = max(x[right], nearest)
    # The whole row moves back to the left by as much as its points were pushed to the right.
    pushed = [x[point] - wishes[point] for point in level]
    moved = fmean(pushed)
    return {point: x[point] - moved for point in level}


def spread(lines: list[Line], row: dict[object, int]) -> dict[object, float]:
    """Place of every node and bend: near its neighbours, but not on top of others."""
    near = neighbours(lines)
    last = max(row.values())
    levels = [[] for _ in range(last + 1)]
    x = {}
    for point in near:
        height = point.row if isinstance(point, Bend) else row[point]
        level = levels[height]
        x[point] = float(len(level))
        level.append(point)

    # At first the points find out who is left of whom. Then long lines are pulled straight.
    rounds = [1] * 30 + [9] * 30
    for stiff in rounds:
        for level in levels:
            wishes = {}
            for point in level:
                wishes[point] = middle(point, near[point], x, stiff)
            if stiff == 1:
                level.sort(key=wishes.get)
            x |= apart(level, wishes)
    return x


def ports(lines: list[Line], x: dict, end: int, beside: int) -> list[float]:
    """Where each line meets the box at its `end`: side by side, in the order of those `beside`."""

    def place_beside(number: int) -> float:
        point = lines[number].points[beside]
        return x[point]

    sharing = defaultdict(list)
    for number, line in enumerate(lines):
        node = line.points[end]
        sharing[node].append(number)
    places = [0.0] * len(lines)
    for node, numbers in sharing.items():
        numbers.sort(key=place_beside)
        centre = (len(numbers) - 1) / 2
        for index, number in enumerate(numbers):
            offset = 0.2 * (index - centre)
            places[number] = x[node] + offset
    return places
