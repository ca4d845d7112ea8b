"""Draw tensors, the memory behind them, and where a call spends its time.

Use:  from tensors import draw, flame, grid
"""

import re
from itertools import pairwise

import torch
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

from figures import BLACK, BLUE, GREEN, GREY, ORANGE

ROWS = [BLUE, ORANGE, GREEN, GREY]
STORAGE = 5  # where the storage begins, in cells from the left
CENTRED = {"ha": "center", "va": "center"}


def positions(tensor: torch.Tensor) -> list[list[int]]:
    """Where in its storage each element of a 2-D tensor lies, row by row."""
    rows, columns = tensor.shape
    down, right = tensor.stride()
    table = []
    for i in range(rows):
        first = tensor.storage_offset() + i * down
        row = [first + j * right for j in range(columns)]
        table.append(row)
    return table


def cell(ax: Axes, x: float, y: float, value: float, color: str) -> None:
    """Draw one number in a box of side 1 around (x, y)."""
    ink = "white"
    if color in (GREY, "white"):
        ink = BLACK
    line = GREY if color == "white" else "white"
    corner = (x - 0.5, y - 0.5)
    box = Rectangle(corner, 1, 1, facecolor=color, edgecolor=line)
    ax.add_patch(box)
    text = f"{value:g}"
    ax.text(x, y, text, color=ink, fontsize=13, **CENTRED)


def arrow(ax: Axes, jump: tuple[int, int], y: float, bend: float, color: str) -> None:
    """Draw an arrow from cell to cell of the storage; a positive bend curves it downwards."""
    begin = (STORAGE + jump[0], y)
    end = (STORAGE + jump[1], y)
    curve = f"arc3,rad={bend}"
    style = {"connectionstyle": curve, "arrowstyle": "->", "mutation_scale": 12}
    patch = FancyArrowPatch(begin, end, color=color, **style)
    ax.add_patch(patch)


def grid(ax: Axes, tensor: torch.Tensor, left: float = 0, title: str = "") -> None:
    """Draw a 2-D tensor's numbers, one colour a row; what repeats a cell of memory is white."""
    seen = set()
    for i, row in enumerate(positions(tensor)):
        for j, position in enumerate(row):
            color = "white" if position in seen else ROWS[i % 4]
            value = tensor[i, j].item()
            cell(ax, left + j, -i, value, color)
            seen.add(position)
    ax.text(left - 0.5, 0.75, title, fontsize=11)
    ax.set_aspect("equal")
    ax.axis("off")


def draw(ax: Axes, tensor: torch.Tensor, name: str) -> None:
    """Draw a 2-D tensor on the left, and on the right its storage and the tensor's way through it.

    Arrows above the storage lead from column to column within a row (each a jump of stride[1]
    cells), arrows below it from one row to the next (stride[0] cells). Cells that the tensor never
    visits stay white.
    """
    grid(ax, tensor)
    rows = positions(tensor)

    # All cells of the storage, in the colour of the row that reads them.
    colors = {}
    for i, row in enumerate(rows):
        for position in row:
            colors[position] = ROWS[i % 4]
    size = tensor.untyped_storage().nbytes()
    cells = size // tensor.element_size()
    storage = tensor.as_strided((cells,), (1,), 0)
    for position, value in enumerate(storage.tolist()):
        color = colors.get(position, "white")
        cell(ax, STORAGE + position, 0, value, color)

    # The tensor's way: within each row, and from the first cell of a row to that of the next.
    for i, row in enumerate(rows):
        for jump in pairwise(row):
            arrow(ax, jump, 0.55, -0.5, ROWS[i % 4])
    starts = [row[0] for row in rows]
    for jump in pairwise(starts):
        arrow(ax, jump, -0.55, 0.5, "black")

    ax.text(STORAGE - 0.7, 0, "storage", ha="right", va="center", fontsize=11)
    right = STORAGE + cells
    bottom = -len(rows) + 0.2
    ax.set(xlim=(-0.6, right), ylim=(bottom, 1.4))
    shape = tuple(tensor.shape)
    facts = f"shape {shape}, stride {tensor.stride()}, offset {starts[0]}"
    ax.set_title(f"{name}   {facts}", fontsize=11)


def short(name: str) -> str:
    """The last part of a C++ name, without its arguments: of `at::add<4>(int)` that is `add`."""
    name = name.replace("(anonymous namespace)::", "")
    name = re.sub(r"[<(].*", "", name)
    return name.split("::")[-1]


def shade(name: str) -> str:
    """The colour of a call: modules are blue, ATen operations green, others grey."""
    if name.startswith("nn."):
        return BLUE
    if name.startswith("aten::"):
        return GREEN
    return GREY


def flame(ax: Axes, rows: list[dict], kernels: list[dict]) -> None:
    """Draw calls over time, each below the one that made it; a GPU's kernels are the last row.

    Each of `rows` has a depth, a name, a start and an end in µs; each of `kernels` the same but for
    the depth.
    """
    bars = rows + kernels
    deepest = max(row["depth"] for row in rows)
    bottom = 1 + deepest
    first = rows[0]["start"]
    last = max(bar["end"] for bar in bars)
    whole = last - first
    for bar in bars:
        depth = bar.get("depth", bottom)
        color = shade(bar["name"]) if "depth" in bar else ORANGE
        left = bar["start"] - first
        width = bar["end"] - bar["start"]
        ax.barh(depth, width, left=left, height=0.9, color=color, edgecolor="white")
        letters = int(60 * width / whole)  # that many fit into the bar
        if letters > 6:
            name = short(bar["name"])
            middle = left + width / 2
            ink = BLACK if color == GREY else "white"
            ax.text(middle, depth, name[:letters], color=ink, fontsize=10.5, **CENTRED)
    ax.invert_yaxis()
    ax.set(xlabel="time (µs)", ylabel="depth of the call")
