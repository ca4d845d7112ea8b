"""Pictures of a mesh of ranks, of the parts of matrices, and of the ways between placements.

from tiles import draw_mesh, draw_moves, draw_products
"""

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from figures import BLACK, GREY, ORANGE, RANKS, plt

CORNERS = {
    "P": (0, 0),
    "S": (2, 1.5),
    "R": (4, 0),
}
MEANINGS = {
    "P": "P: a part of\na sum each",
    "R": "R: the whole\neach",
    "S": "S: a piece each",
}
CENTRED = {"ha": "center", "va": "center"}
ON_LINE = {"facecolor": "white", "edgecolor": "none", "pad": 2}  # behind a label: hides the line


def frame(ax: Axes, x: tuple[float, float], y: tuple[float, float]) -> None:
    """Show these ranges of x and y, without axes."""
    ax.set_xlim(x)
    ax.set_ylim(y)
    ax.axis("off")


def draw_group(ax: Axes, spots: list[tuple[float, float]], label: str) -> None:
    """A line through the ranks of a group, and its label in the middle."""
    x = [spot[0] for spot in spots]
    y = [spot[1] for spot in spots]
    ax.plot(x, y, color=BLACK)
    middle_x = sum(x) / len(x)
    middle_y = sum(y) / len(y)
    ax.text(middle_x, middle_y, label, bbox=ON_LINE, **CENTRED)


def draw_mesh(mesh: list[list[int]], labels: dict[tuple[int, ...], str], title: str) -> None:
    """Ranks as coloured squares, in the rows of the mesh, and a labelled line for each group."""
    _, ax = plt.subplots(figsize=(6.2, 3))
    spots = {}
    for row, ranks in enumerate(mesh):
        for column, rank in enumerate(ranks):
            spots[rank] = (4 * column, -1.6 * row)
    for ranks, label in labels.items():
        members = [spots[rank] for rank in ranks]
        draw_group(ax, members, label)
    for rank, (x, y) in spots.items():
        corner = (x - 0.5, y - 0.3)
        square = Rectangle(corner, 1, 0.6, color=RANKS[rank], zorder=3)
        ax.add_patch(square)
        ax.text(x, y, f"rank {rank}", color="white", zorder=4, **CENTRED)
    ax.set_title(title)
    frame(ax, (-1.4, 5.4), (-2.1, 0.5))


def draw_part(ax: Axes, left: float, part: list[list[float]], rank: int, summand: bool) -> None:
    """A matrix of 2 × 2, of which `rank` holds `part`. A part of a sum is drawn without colour."""
    for row in range(2):
        for column in range(2):
            corner = (left + column, -row - 1)
            empty = Rectangle(corner, 1, 1, fill=False, edgecolor=GREY)
            ax.add_patch(empty)
    height = len(part)
    width = len(part[0])
    first_row = rank if height == 1 else 0
    first_column = rank if width == 1 else 0
    color = RANKS[rank]
    paint = "white" if summand else color
    ink = color if summand else "white"
    style = {"facecolor": paint, "edgecolor": color}
    for row, numbers in enumerate(part, first_row):
        for column, number in enumerate(numbers, first_column):
            x = left + column
            y = -row - 1
            square = Rectangle((x, y), 1, 1, **style)
            ax.add_patch(square)
            ax.text(x + 0.5, y + 0.5, f"{number:.0f}", color=ink, **CENTRED)


def draw_product(ax: Axes, rank: int, held: dict) -> None:
    """What one rank holds of x, of w and of y = x @ w."""
    left = 9.6 * rank
    partial = "P" in held["placement"]
    draw_part(ax, left, held["x"], rank, summand=False)
    draw_part(ax, left + 3, held["w"], rank, summand=False)
    draw_part(ax, left + 6, held["y"], rank, summand=partial)
    ax.text(left + 2.5, -1, "@", **CENTRED)
    ax.text(left + 5.5, -1, "=", **CENTRED)


def draw_products(products: dict[str, list[dict]]) -> None:
    """One line for each product, with what each rank holds."""
    lines = len(products)
    _, axes = plt.subplots(lines, 1, figsize=(6.2, 1.3 * lines))
    for ax, title in zip(axes, products, strict=True):
        of_ranks = products[title]
        for rank, held in enumerate(of_ranks):
            draw_product(ax, rank, held)
        placement = of_ranks[0]["placement"]
        ax.set_title(f"{title} → {placement}    rank 0 left, rank 1 right")
        ax.set_aspect("equal")
        frame(ax, (-0.2, 17.8), (-2.1, 0.1))


def draw_move(ax: Axes, way: str, label: str) -> None:
    """An arrow from corner to corner for a way such as "P → R"."""
    begin, end = way.split(" → ")
    x, y = CORNERS[begin]
    end_x, end_y = CORNERS[end]
    width = end_x - x
    height = end_y - y
    # Each arrow keeps to its own side, and stops short of both corners.
    side_x = 0.09 * height
    side_y = -0.035 * width
    tail_x = x + 0.25 * width - side_x
    tail_y = y + 0.25 * height - side_y
    head_x = x + 0.75 * width - side_x
    head_y = y + 0.75 * height - side_y
    color = ORANGE if "_" in label else GREY
    arrow = {"arrowstyle": "-|>", "color": color, "linewidth": 2}
    ax.annotate("", (head_x, head_y), (tail_x, tail_y), arrowprops=arrow)
    distance = 4.4 if "\n" in label else 2.4  # two lines of text need more room
    middle_x = (tail_x + head_x) / 2
    middle_y = (tail_y + head_y) / 2
    label_x = middle_x - distance * side_x
    label_y = middle_y - 1.2 * side_y
    ax.text(label_x, label_y, label, color=BLACK, **CENTRED)


def draw_moves(labels: dict[str, str], title: str) -> None:
    """An arrow for each way, with its label: orange if something is sent."""
    _, ax = plt.subplots(figsize=(6.2, 3.6))
    for way, label in labels.items():
        draw_move(ax, way, label)
    for name, (x, y) in CORNERS.items():
        ax.text(x, y, MEANINGS[name], **CENTRED)
    ax.set_title(title)
    frame(ax, (-0.8, 4.8), (-0.5, 1.8))
