"""Draw tensors, the memory behind them, and where a call spends its time: `from tensors import draw, flame, grid`."""

import re
from itertools import pairwise

import torch
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

from figures import BLUE, GREEN, GREY, ORANGE

ROWS = [BLUE, ORANGE, GREEN, GREY]
STORAGE = 5  # where the storage begins, in cells from the left


def positions(tensor: torch.Tensor) -> list[list[int]]:
    """Where in its storage each element of a 2-D tensor lies: offset + i × stride[0] + j × stride[1]."""
    (rows, columns), (down, right) = tensor.shape, tensor.stride()
    return [[tensor.storage_offset() + i * down + j * right for j in range(columns)] for i in range(rows)]


def cell(ax: Axes, x: float, y: float, value: float, color: str) -> None:
    """Draw one number in a box of side 1 around (x, y)."""
    ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=color, edgecolor="white" if color != "white" else GREY))
    ax.text(x, y, f"{value:g}", ha="center", va="center", color="white" if color != "white" else GREY, fontsize=13)


def arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], bend: float, color: str) -> None:
    """Draw a curved arrow; a positive bend curves it downwards on its way to the right."""
    curve = f"arc3,rad={bend}"
    ax.add_patch(FancyArrowPatch(start, end, connectionstyle=curve, arrowstyle="->", mutation_scale=12, color=color))


def grid(ax: Axes, tensor: torch.Tensor, left: float = 0, title: str = "") -> None:
    """Draw a 2-D tensor's numbers, one colour a row; an element in the memory of one before it stays white."""
    seen = set()
    for i, row in enumerate(positions(tensor)):
        for j, position in enumerate(row):
            cell(ax, left + j, -i, tensor[i, j].item(), "white" if position in seen else ROWS[i % 4])
            seen.add(position)
    ax.text(left - 0.5, 0.75, title, fontsize=11)
    ax.set_aspect("equal")
    ax.axis("off")


def draw(ax: Axes, tensor: torch.Tensor, name: str) -> None:
    """Draw a 2-D tensor on the left, and on the right its storage and the tensor's way through it.

    Arrows above the storage lead from column to column within a row (each a jump of stride[1] cells), arrows below it
    from one row to the next (stride[0] cells). Cells that the tensor never visits stay white.
    """
    grid(ax, tensor)
    steps = positions(tensor)
    colors = {position: ROWS[i % 4] for i, row in enumerate(steps) for position in row}
    cells = tensor.untyped_storage().nbytes() // tensor.element_size()
    for position, value in enumerate(tensor.as_strided((cells,), (1,), 0).tolist()):
        cell(ax, STORAGE + position, 0, value, colors.get(position, "white"))
    for i, row in enumerate(steps):
        for here, there in pairwise(row):
            arrow(ax, (STORAGE + here, 0.55), (STORAGE + there, 0.55), -0.5, ROWS[i % 4])
    for here, there in pairwise(steps):
        arrow(ax, (STORAGE + here[0], -0.55), (STORAGE + there[0], -0.55), 0.5, "black")
    ax.text(STORAGE - 0.7, 0, "storage", ha="right", va="center", fontsize=11)
    ax.set(xlim=(-0.6, STORAGE + cells), ylim=(-2.6, 1.4))
    ax.set_title(f"{name}   shape {tuple(tensor.shape)}, stride {tensor.stride()}, offset {steps[0][0]}", fontsize=11)


def flame(ax: Axes, rows: list[dict], kernels: list[dict]) -> None:
    """Draw calls over time, each below the one that made it; kernels of a GPU in a row of their own at the bottom.

    Each of `rows` has a depth, a name, a start and an end in µs; each of `kernels` the same but for the depth.
    """
    bottom = 1 + max(row["depth"] for row in rows)
    first, last = rows[0]["start"], max(bar["end"] for bar in rows + kernels)
    for bar in rows + kernels:
        depth, width = bar.get("depth", bottom), bar["end"] - bar["start"]
        color = BLUE if bar["name"].startswith("nn.") else GREEN if bar["name"].startswith("aten::") else GREY
        left = bar["start"] - first
        ax.barh(depth, width, left=left, height=0.9, color=color if "depth" in bar else ORANGE, edgecolor="white")
        letters = int(100 * width / (last - first))  # that many fit into the bar
        if letters > 6:
            name = re.sub(r"[<(].*", "", bar["name"].replace("(anonymous namespace)::", "")).split("::")[-1]
            ax.text(left + width / 2, depth, name[:letters], ha="center", va="center", color="white", fontsize=9)
    ax.invert_yaxis()
    ax.set(xlabel="time (µs)", ylabel="depth of the call")
