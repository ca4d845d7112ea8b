"""Tensors of several ranks as pictures: a row for each rank, a coloured cell for each number.

The numbers are those of three ranks, 1, 2 and 4 times a power of ten: the first digit of a sum
tells what is in it.
"""

from figures import BLACK, GREY, RANKS, plt

COLORS = {1: RANKS[0], 2: RANKS[1], 4: RANKS[2], 7: BLACK}  # a rank's own number, or the sum of all
SOME = GREY  # the sum of some
SIDE = 0.92  # of a cell, of which the next one is 1 away
MIDDLE = SIDE / 2
PITCH = 1.4  # of rows that leave room for an arrow
Row = list[int | None]  # what a rank holds; None is an empty cell
STEPS = [
    "step 1: add",
    "step 2: add",
    "reduce-scatter done",
    "step 3: copy",
    "step 4: copy",
    "all-gather done",
]


def color_of(number: int | None) -> str:
    if not number:
        return "white"
    first_digit = int(str(number)[0])
    return COLORS.get(first_digit, SOME)


def cell(ax: plt.Axes, column: int, top: float, number: int | None, pale: bool) -> None:
    """Draw one cell and its number."""
    color = color_of(number)
    square = plt.Rectangle((column, top), SIDE, SIDE)
    square.set_facecolor(color)
    square.set_edgecolor(GREY)
    if pale:
        square.set_alpha(0.3)
    ax.add_patch(square)

    text = number or ""
    x = column + MIDDLE
    y = top + MIDDLE
    label = ax.text(x, y, text, size=12)
    if pale or color == SOME:
        label.set_color("black")
    else:
        label.set_color("white")
    label.set_horizontalalignment("center")
    label.set_verticalalignment("center")


def table(ax: plt.Axes, rows: list[Row], title: str, faded: bool = False, pitch: float = 1) -> None:
    """Draw rows[rank][column], `pitch` apart. `faded`: only rank 0's row is in full colour."""
    for rank, row in enumerate(rows):
        top = rank * pitch
        pale = faded and rank > 0
        for column, number in enumerate(row):
            cell(ax, column, top, number, pale)

    # The names of the rows are the only marks on the axes; rank 0 is at the top.
    ranks = range(len(rows))
    middles = [rank * pitch + MIDDLE for rank in ranks]
    names = []
    if ax.get_subplotspec().is_first_col():
        names = [f"rank {rank}" for rank in ranks]
    ax.set_yticks(middles, names)
    ax.set_xticks([])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.grid(False)
    ax.set_xlim(-0.1, len(rows[0]))
    ax.set_ylim(len(rows) * pitch, SIDE - pitch)
    ax.set_aspect("equal")
    ax.set_title(title, size=11)


def in_columns(pieces: list[list[int]]) -> list[Row]:
    """Each rank's piece of one number as a row of its own, in the column of its rank."""
    rows = []
    for rank, piece in enumerate(pieces):
        row = [None] * len(pieces)
        row[rank] = piece[0]
        rows.append(row)
    return rows


def before_after(ranks: list[dict], names: list[str]) -> None:
    """For each collective, what the ranks held before it (above) and after it (below)."""
    columns = len(names)
    width = 0.5 + 1.9 * columns
    _, axes = plt.subplots(2, columns, figsize=(width, 4.4))
    for (top, bottom), name in zip(axes.T, names, strict=True):
        before = [rank["own"] for rank in ranks]
        after = [rank["after"][name] for rank in ranks]
        if name == "all-gather":
            pieces = [rank["piece"] for rank in ranks]
            before = in_columns(pieces)
        if name == "reduce-scatter":
            after = in_columns(after)
        table(top, before, f"before {name}")
        table(bottom, after, f"after {name}", faded=name == "reduce")


def arrow(ax: plt.Axes, column: int, row: int, pitch: float) -> None:
    """From below the cell of this row and column to the next row."""
    x = column + MIDDLE
    below = row * pitch + SIDE
    tail = (x, below)
    head = (x, (row + 1) * pitch)
    style = {"arrowstyle": "-|>", "linewidth": 2.5, "color": "k"}
    style |= {"shrinkA": 0, "shrinkB": 0}  # no gap at either end
    ax.annotate("", head, tail, arrowprops=style)


def ring_steps(ranks: list[dict]) -> None:
    """Each step of a ring of three: what the ranks hold, and which chunk goes to the rank below."""
    states = [rank["rings"]["3"]["states"] for rank in ranks[:3]]  # states[rank][moment][chunk]
    _, axes = plt.subplots(2, 3, figsize=(6.2, 6.2))
    moments = [0, 1, 2, 2, 3, 4]  # of each picture
    pictures = zip(axes.flat, STEPS, moments, strict=True)
    for ax, title, moment in pictures:
        rows = [own[moment] for own in states]
        table(ax, rows, title, pitch=PITCH)
        if "done" in title:
            continue
        for sender in range(3):
            # The cell in which the next rank's numbers change is the chunk that travels.
            receiver = states[(sender + 1) % 3]
            now = receiver[moment]
            later = receiver[moment + 1]
            changed = [now[c] != later[c] for c in range(3)]
            chunk = changed.index(True)
            arrow(ax, chunk, sender, PITCH)
            if sender == 2:  # the last sends to the first: out at the bottom, in above
                arrow(ax, chunk, -1, PITCH)
