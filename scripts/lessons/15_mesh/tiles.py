"""Pictures of a mesh of ranks, of the parts of matrices, and of the ways between placements.

from tiles import draw_mesh, draw_moves, draw_products
"""

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from figures import BLACK, GREY, ORANGE, RANKS, plt

CORNERS = {"P": (0, 0), "S": (2, 1.5), "R": (4, 0)}
MEANINGS = {"P": "P: a part of\na sum each", "R": "R: the whole\neach", "S": "S: a piece each"}
CENTRED = {"ha": "center", "va": "center"}


def draw_mesh(mesh: list[list[int]], labels: dict[tuple[int, ...], str], title: str) -> None:
    """Ranks as coloured squares, in the rows of the mesh, and a labelled line for each group."""
    _, ax = plt.subplots(figsize=(6.2, 3))
    spots = {}
    for row, ranks in enumerate(mesh):
        for column, rank in enumerate(ranks):
            spots[rank] = (4 * column, -1.6 * row)
    for ranks, label in labels.items():
        x, y = zip(*[spots[rank] for rank in ranks], strict=True)
        ax.plot(x, y, color=BLACK)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 2}
        ax.text(sum(x) / len(x), sum(y) / len(y), label, bbox=box, **CENTRED)
    for rank, (x, y) in spots.items():
        ax.add_patch(Rectangle((x - 0.5, y - 0.3), 1, 0.6, color=RANKS[rank], zorder=3))
        ax.text(x, y, f"rank {rank}", color="white", zorder=4, **CENTRED)
    ax.set(xlim=(-1.4, 5.4), ylim=(-2.1, 0.5), title=title)
    ax.axis("off")


def draw_part(ax: Axes, left: float, part: list[list[float]], rank: int, summand: bool) -> None:
    """A matrix of 2 × 2, of which `rank` holds `part`. A part of a sum is drawn without colour."""
    height = len(part)
    width = len(part[0])
    first_row = rank if height == 1 else 0
    first_column = rank if width == 1 else 0
    for row in range(2):
        for column in range(2):
            ax.add_patch(Rectangle((left + column, -row - 1), 1, 1, fill=False, edgecolor=GREY))
    for row, numbers in enumerate(part, first_row):
        for column, number in enumerate(numbers, first_column):
            corner = (left + column, -row - 1)
            paint = "white" if summand else RANKS[rank]
            ink = RANKS[rank] if summand else "white"
            ax.add_patch(Rectangle(corner, 1, 1, facecolor=paint, edgecolor=RANKS[rank]))
            ax.text(corner[0] + 0.5, corner[1] + 0.5, f"{number:.0f}", color=ink, **CENTRED)


def draw_products(products: dict[str, list[dict]]) -> None:
    """One line for each product: what each rank holds of x, of w and of y = x @ w."""
    _, axes = plt.subplots(len(products), 1, figsize=(6.2, 1.3 * len(products)))
    for ax, (title, of_ranks) in zip(axes, products.items(), strict=True):
        for rank, held in enumerate(of_ranks):
            left = 9.6 * rank
            draw_part(ax, left, held["x"], rank, summand=False)
            draw_part(ax, left + 3, held["w"], rank, summand=False)
            draw_part(ax, left + 6, held["y"], rank, summand="P" in held["placement"])
            ax.text(left + 2.5, -1, "@", **CENTRED)
            ax.text(left + 5.5, -1, "=", **CENTRED)
        ax.set(xlim=(-0.2, 17.8), ylim=(-2.1, 0.1), aspect="equal")
        ax.set_title(f"{title} → {of_ranks[0]['placement']}    rank 0 left, rank 1 right")
        ax.axis("off")


def draw_moves(labels: dict[str, str], title: str) -> None:
    """An arrow for each way, such as "P → R", with its label: orange if something is sent."""
    _, ax = plt.subplots(figsize=(6.2, 3.6))
    for way, label in labels.items():
        begin, end = way.split(" → ")
        x0, y0 = CORNERS[begin]
        x1, y1 = CORNERS[end]
        # Each arrow keeps to its own side, and stops short of both corners.
        side_x, side_y = 0.09 * (y1 - y0), -0.035 * (x1 - x0)
        points = []
        for share in (0.25, 0.75):
            points.append((x0 + share * (x1 - x0) - side_x, y0 + share * (y1 - y0) - side_y))
        color = ORANGE if "_" in label else GREY
        arrow = {"arrowstyle": "-|>", "color": color, "linewidth": 2}
        ax.annotate("", points[1], points[0], arrowprops=arrow)
        distance = 4.4 if "\n" in label else 2.4  # two lines of text need more room
        middle_x = (points[0][0] + points[1][0]) / 2 - distance * side_x
        middle_y = (points[0][1] + points[1][1]) / 2 - 1.2 * side_y
        ax.text(middle_x, middle_y, label, color=BLACK, **CENTRED)
    for name, spot in CORNERS.items():
        ax.text(*spot, MEANINGS[name], **CENTRED)
    ax.set(xlim=(-0.8, 4.8), ylim=(-0.5, 1.8), title=title)
    ax.axis("off")
