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
    begin = (across[0], y)
    points = [begin]
    codes = [Path.MOVETO]
    for left, right in pairwise(across):
        # Straight down through the row itself, then an S to the next one.
        below = y - HALF
        between = y - 0.5
        above = y - 1 + HALF
        points.append((left, below))
        codes.append(Path.LINETO)
        leaving = (left, between)
        arriving = (right, between)
        end = (right, above)
        points += [leaving, arriving, end]
        codes += [Path.CURVE4] * 3
        y -= 1
    path = Path(points, codes)
    style = {"edgecolor": GREY, "facecolor": GREY, "linewidth": 1.5}
    head = {"arrowstyle": "-|>", "mutation_scale": 14}
    arrow = FancyArrowPatch(path=path, **style, **head)
    ax.add_patch(arrow)


def draw_note(ax: Axes, x: float, y: float, text: str) -> None:
    paper = {"fc": "white", "ec": "none", "pad": 1}
    style = {"fontsize": 10, "color": BLACK, "zorder": 2}
    ax.text(x, y, text, bbox=paper, **style, **CENTRED)


def draw_box(ax: Axes, x: float, y: float, text: str, color: str) -> None:
    width = 1.1
    height = 2 * HALF
    left = x - width / 2
    corner = (left, y - HALF)
    shape = "round,pad=0,rounding_size=0.08"
    box = FancyBboxPatch(corner, width, height, shape, ec=color, fc="white")
    ax.add_patch(box)
    style = {"fontsize": 10.5, "zorder": 3}
    ax.text(x, y, text, **style, **CENTRED)


def silent(detail: object) -> str:
    """No note at an arrow, whatever is known about it."""
    return ""


def draw(ax: Axes, end: object, edges: Edges, label: Text, note: Text = silent) -> None:
    """Draw on `ax` all that `edges` reaches from `end`, arrows pointing the way `backward` goes."""
    row = rows(end, edges)
    lines = connect(row, edges)
    x = spread(lines, row)
    leave = ports(lines, x, end=0, beside=1)
    meet = ports(lines, x, end=-1, beside=-2)

    for number, line in enumerate(lines):
        first, *bends, _ = line.points
        begin = leave[number]
        between = [x[bend] for bend in bends]
        across = [begin, *between, meet[number]]
        top = -row[first]
        draw_line(ax, across, top)
        text = note(line.detail)
        if text:
            halfway = (begin + across[1]) / 2
            middle = top - 0.5
            draw_note(ax, halfway, middle, text)
    for node in row:
        color = BLUE
        if edges(node):
            color = GREY
        if node is end:
            color = ORANGE
        y = -row[node]
        text = label(node)
        draw_box(ax, x[node], y, text, color)

    places = x.values()
    left = min(places) - 0.7
    right = max(places) + 0.7
    last = max(row.values())
    bottom = -last - 0.4
    shared, _ = ax.get_ylim()  # axes may share their height with a taller graph
    bottom = min(bottom, shared)
    ax.set_xlim(left, right)
    ax.set_ylim(bottom, 0.4)
    ax.axis("off")
