"""Draw a graph of computation, from its end at the top to its inputs at the bottom.

Use:  from graph import draw
"""

from collections.abc import Callable
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path

from figures import BLACK, BLUE, GREY, ORANGE
from layout import Edges, connect, ports, rows, spread

HALF = 0.28  # half the height of a box; from row to row it is 1
CENTRED = {"ha": "center", "va": "center"}
Text = Callable[[object], str]


def draw_line(ax: Axes, across: list[float], y: float) -> None:
    """Draw an arrow that begins at across[0], `y`, and is one row lower at each number after it."""
    points = [(across[0], y)]
    codes = [Path.MOVETO]
    for left, right in pairwise(across):
        # Straight down through the row itself, then an S to the next one.
        below = y - HALF
        between = y - 0.5
        above = y - 1 + HALF
        points += [(left, below), (left, between), (right, between), (right, above)]
        codes += [Path.LINETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
        y -= 1
    path = Path(points, codes)
    style = {"edgecolor": GREY, "facecolor": GREY, "linewidth": 1.5}
    arrow = FancyArrowPatch(path=path, arrowstyle="-|>", mutation_scale=14, **style)
    ax.add_patch(arrow)


def draw_note(ax: Axes, x: float, y: float, text: str) -> None:
    paper = {"fc": "white", "ec": "none", "pad": 1}
    style = {"fontsize": 10, "color": BLACK, "zorder": 2}
    ax.text(x, y, text, bbox=paper, **style, **CENTRED)


def draw_box(ax: Axes, x: float, y: float, text: str, color: str) -> None:
    corner = (x - 0.55, y - HALF)
    shape = "round,pad=0,rounding_size=0.08"
    box = FancyBboxPatch(corner, 1.1, 2 * HALF, shape, ec=color, fc="white")
    ax.add_patch(box)
    ax.text(x, y, text, fontsize=10.5, zorder=3, **CENTRED)


def draw(ax: Axes, end: object, edges: Edges, label: Text, note: Text = lambda _: "") -> None:
    """Draw on `ax` all that `edges` reaches from `end`, arrows pointing the way `backward` goes."""
    row = rows(end, edges)
    lines = connect(row, edges)
    x = spread(lines, row)
    leave = ports(lines, x, end=0, beside=1)
    meet = ports(lines, x, end=-1, beside=-2)

    for number, line in enumerate(lines):
        first, *bends, _ = line.points
        across = [x[bend] for bend in bends]
        across = [leave[number], *across, meet[number]]
        top = -row[first]
        draw_line(ax, across, top)
        text = note(line.detail)
        if text:
            halfway = (across[0] + across[1]) / 2
            draw_note(ax, halfway, top - 0.5, text)
    for node in row:
        color = GREY if edges(node) else BLUE
        if node is end:
            color = ORANGE
        draw_box(ax, x[node], -row[node], label(node), color)

    left = min(x.values()) - 0.7
    right = max(x.values()) + 0.7
    bottom = -max(row.values()) - 0.4
    bottom = min(bottom, ax.get_ylim()[0])  # axes may share their height with a taller graph
    ax.set(xlim=(left, right), ylim=(bottom, 0.4))
    ax.axis("off")
