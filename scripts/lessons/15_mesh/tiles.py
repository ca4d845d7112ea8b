"""Pictures of a mesh of ranks, of the parts of matrices, and of the ways from R to S to P.

from tiles import draw_mesh, draw_moves, draw_products
"""

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from figures import BLACK, GREY, LINES, RANKS, plt

CORNERS = {"P": (0, 1), "R": (2.6, 1), "S": (1.3, 0)}
MEANINGS = {"P": "P: parts of a sum", "R": "R: whole on each rank", "S": "S: a piece on each rank"}


def draw_mesh(mesh: list[list[int]], labels: dict[tuple[int, ...], str], title: str) -> None:
    """Ranks as coloured squares, in the rows of the mesh, and a labelled line for each group."""
    _, ax = plt.subplots(figsize=(5, 3))
    spots = {}
    for row, ranks in enumerate(mesh):
        for column, rank in enumerate(ranks):
            spots[rank] = (3 * column, -1.6 * row)
    for ranks, label in labels.items():
        x, y = zip(*[spots[rank] for rank in ranks], strict=True)
        ax.plot(x, y, color=BLACK, linewidth=2, zorder=1)
        middle = (sum(x) / len(x), sum(y) / len(y))
        box = {"facecolor": "white", "edgecolor": "none", "pad": 2}
        ax.text(*middle, label, ha="center", va="center", fontsize=10.5, bbox=box, zorder=2)
    for rank, (x, y) in spots.items():
        ax.add_patch(Rectangle((x - 0.45, y - 0.3), 0.9, 0.6, color=RANKS[rank], zorder=3))
        ax.text(x, y, f"rank {rank}", color="white", ha="center", va="center", zorder=4)
    ax.set(xlim=(-1.1, 4.1), ylim=(-2.1, 0.5), title=title)
    ax.axis("off")


def draw_part(ax: Axes, left: float, part: list[list[float]], rank: int, pale: bool) -> None:
    """A matrix of 2 × 2, of which `rank` holds only `part`; `pale` if that is part of a sum."""
    height = len(part)
    width = len(part[0])
    top = rank if height < 2 else 0
    first = rank if width < 2 else 0
    for row in range(2):
        for column in range(2):
            ax.add_patch(Rectangle((left + column, -row), 1, -1, facecolor="white", edgecolor=GREY))
    for row, numbers in enumerate(part):
        for column, number in enumerate(numbers):
            x = left + first + column
            y = -top - row
            color = "white" if pale else RANKS[rank]
            hatch = "///" if pale else None
            edge = RANKS[rank] if pale else GREY
            cell = Rectangle((x, y), 1, -1, facecolor=color, edgecolor=edge, hatch=None)
            ax.add_patch(cell)
            ink = RANKS[rank] if pale else "white"
            ax.text(x + 0.5, y - 0.5, f"{number:.0f}", color=ink, ha="center", va="center")


def draw_products(products: dict[str, list[dict]]) -> None:
    """One line a product: what each rank holds of x, w and y = x @ w."""
    figure, axes = plt.subplots(len(products), 1, figsize=(6.2, 1.35 * len(products)))
    for ax, (title, ranks) in zip(axes, products.items(), strict=True):
        for rank, held in enumerate(ranks):
            start = 9.6 * rank
            draw_part(ax, start, held["x"], rank, pale=False)
            draw_part(ax, start + 3, held["w"], rank, pale=False)
            draw_part(ax, start + 6, held["y"], rank, pale="P" in held["placement"])
            ax.text(start + 2.5, -1, "@", ha="center", va="center")
            ax.text(start + 5.5, -1, "=", ha="center", va="center")
        ax.set(xlim=(-0.2, 17.8), ylim=(-2.1, 0.1), aspect="equal")
        ax.set_title(f"{title} → {ranks[0]['placement']}", fontsize=11)
        ax.axis("off")
    figure.get_layout_engine().set(h_pad=0.02)


def draw_moves(labels: dict[tuple[str, str], str], title: str) -> None:
    """Arrows between P, R and S, each with its label."""
    _, ax = plt.subplots(figsize=(6.2, 3))
    ax.set(xlim=(-0.9, 3.5), ylim=(-0.3, 1.4), title=title)
    ax.axis("off")
