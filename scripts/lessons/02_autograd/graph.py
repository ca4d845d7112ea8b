"""Draw a graph of computation, from its end at the top to its inputs at the bottom: `from graph import draw`."""

from collections.abc import Callable
from itertools import pairwise
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path

from figures import BLUE, GREY, ORANGE

Edges = Callable[[object], list[tuple[object, object]]]  # node → [(next node, what to say about this edge), …]
HALF = 0.28  # half the height of a box; from row to row it is 1
LINE = {"edgecolor": GREY, "facecolor": GREY, "linewidth": 1.5}


def rows(end: object, edges: Edges) -> dict[object, int]:
    """Row of every node that can be reached from `end`: below all that lead to it; inputs share the last row."""
    order = []

    def visit(node: object) -> None:
        if node not in order:
            for other, _ in edges(node):
                visit(other)
            order.append(node)

    visit(end)
    row = dict.fromkeys(reversed(order), 0)
    for node in row:
        for other, _ in edges(node):
            row[other] = max(row[other], row[node] + 1)
    last = max(row.values())
    return {node: row[node] if edges(node) else last for node in row}


def spread(lines: list[list[object]], row: dict[object, int]) -> dict[object, float]:
    """Horizontal place of every node, and of every bend of a line: near its neighbours, but not on top of others."""
    near, levels = {}, [[] for _ in range(max(row.values()) + 1)]
    for line in lines:
        for above, below in pairwise(line):
            near.setdefault(above, []).append(below)
            near.setdefault(below, []).append(above)
    for key in near:
        levels[row[key] if key in row else key[-1]].append(key)
    x = {key: float(index) for level in levels for index, key in enumerate(level)}
    for stiff in [1] * 30 + [9] * 30:  # first who stands left of whom, then long lines are pulled straight
        for level in levels:
            pull = {key: [1 if key in row or other in row else stiff for other in near[key]] for key in level}
            wish = {key: fmean([x[other] for other in near[key]], pull[key]) for key in level}
            free = dict(wish)
            level.sort(key=wish.get if stiff == 1 else x.get)
            for left, right in pairwise(level):
                room = 0.3 + 0.5 * ((left in row) + (right in row))
                wish[right] = max(wish[right], wish[left] + room)
            slack = fmean(wish[key] - free[key] for key in level)
            x |= {key: wish[key] - slack for key in level}
    return x


def ports(lines: list[list[object]], x: dict[object, float], end: int) -> dict[int, float]:
    """Where each line leaves (`end` 0) or meets (-1) its box: side by side, in the order in which they come."""
    beside, found = (1, -2)[end], {}
    for node in {line[end] for line in lines}:
        mine = sorted((n for n, line in enumerate(lines) if line[end] is node), key=lambda n: x[lines[n][beside]])
        found |= {n: x[node] + 0.2 * (k - (len(mine) - 1) / 2) for k, n in enumerate(mine)}
    return found


def draw(ax: Axes, end: object, edges: Edges, label: Callable[[object], str], note: Callable = lambda _: "") -> None:
    """Draw on `ax` all that `edges` reaches from `end`, arrows pointing the way `backward` goes."""
    row = rows(end, edges)
    lines, notes = [], []
    for node in row:
        for number, (other, detail) in enumerate(edges(node)):
            bends = [(id(node), number, height) for height in range(row[node] + 1, row[other])]
            lines.append([node, *bends, other])
            notes.append(note(detail))
    x = spread(lines, row)
    leave, meet = ports(lines, x, 0), ports(lines, x, -1)
    for n, (line, text) in enumerate(zip(lines, notes, strict=True)):
        across = [leave[n], *(x[bend] for bend in line[1:-1]), meet[n]]
        points, top = [(across[0], -row[line[0]])], -row[line[0]]
        for left, right in pairwise(across):  # from row to row an S, and straight down through the row itself
            points += [(left, top - HALF), (left, top - 0.5), (right, top - 0.5), (right, top - 1 + HALF)]
            top -= 1
        codes = [Path.MOVETO] + [Path.LINETO, *[Path.CURVE4] * 3] * (len(across) - 1)
        ax.add_patch(FancyArrowPatch(path=Path(points, codes), arrowstyle="-|>", mutation_scale=14, **LINE))
        if text:
            paper, at = {"fc": "white", "ec": "none", "pad": 1}, ((across[0] + across[1]) / 2, -row[line[0]] - 0.5)
            ax.text(*at, text, fontsize=9, color="#4b5563", ha="center", va="center", bbox=paper, zorder=2)
    for node in row:
        color = ORANGE if node is end else GREY if edges(node) else BLUE
        corner = x[node] - 0.55, -row[node] - HALF
        ax.add_patch(FancyBboxPatch(corner, 1.1, 2 * HALF, "round,pad=0,rounding_size=0.08", ec=color, fc="white"))
        ax.text(x[node], -row[node], label(node), fontsize=10, ha="center", va="center", zorder=3)
    left, right = min(x.values()), max(x.values())
    ax.set(xlim=(left - 0.7, right + 0.7), ylim=(min(ax.get_ylim()[0], -max(row.values()) - 0.4), 0.4))
    ax.axis("off")
