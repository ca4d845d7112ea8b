"""Tensors of several ranks as pictures: a row for each rank, a coloured cell for each number.

The numbers are those of three ranks, 1, 2 and 4 times a power of ten: the first digit of a sum tells what is in it.
"""

from figures import BLUE, GREEN, ORANGE, plt

ONE_RANK, SOME, ALL = {1: BLUE, 2: ORANGE, 4: GREEN}, "#6b7280", "#111827"


def table(ax: plt.Axes, rows: list[list[int | None]], title: str, faded: bool = False, pitch: float = 1) -> None:
    """Draw rows[rank][column], `pitch` apart; None is an empty cell. `faded`: only rank 0's row is in full colour."""
    for rank, row in enumerate(rows):
        for column, number in enumerate(row):
            digit = int(str(number)[0]) if number is not None else 0
            color = ONE_RANK.get(digit, ALL if digit == 7 else SOME) if digit else "white"
            alpha, ink = (0.3, "black") if faded and rank else (1, "white")
            corner = column, rank * pitch
            ax.add_patch(plt.Rectangle(corner, 0.92, 0.92, facecolor=color, edgecolor="#9ca3af", alpha=alpha))
            ax.text(column + 0.46, rank * pitch + 0.46, number or "", color=ink, size=12, ha="center", va="center")
    gap = pitch - 0.92
    ax.set(xlim=(-0.1, len(rows[0])), ylim=(len(rows) * pitch, -gap), aspect="equal", xticks=[])
    ax.set_yticks([rank * pitch + 0.46 for rank in range(len(rows))], [f"rank {rank}" for rank in range(len(rows))])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.grid(False)
    ax.set_title(title, size=12)


def at(rank: int, piece: list[int], columns: int) -> list[int | None]:
    """A piece of one number as a row of its own, in the column of its rank."""
    return [piece[0] if column == rank else None for column in range(columns)]


def before_after(ranks: list[dict], names: list[str]) -> None:
    """For each collective, what the ranks held before it (above) and after it (below)."""
    figure, axes = plt.subplots(2, len(names), figsize=(2.7 * len(names), 4.8))
    for (top, bottom), name in zip(axes.T, names, strict=True):
        before = [at(n, rank["piece"], 3) if name == "all-gather" else rank["own"] for n, rank in enumerate(ranks)]
        after = [rank["after"][name] for rank in ranks]
        after = [at(n, row, 3) if len(row) == 1 else row for n, row in enumerate(after)]
        table(top, before, f"before {name}")
        table(bottom, after, f"after {name}", faded=name == "reduce")


def ring_steps(ranks: list[dict]) -> None:
    """Each step of a ring of three: what the ranks hold, and which chunk each sends to the rank below it."""
    states = [rank["rings"]["3"]["states"] for rank in ranks[:3]]
    titles = ["step 1: add", "step 2: add", "reduce-scatter done", "step 3: copy", "step 4: copy", "all-gather done"]
    figure, axes = plt.subplots(2, 3, figsize=(8, 7))
    for ax, title, moment in zip(axes.flat, titles, [0, 1, 2, 2, 3, 4], strict=True):
        table(ax, [rank[moment] for rank in states], title, pitch=1.4)
        for sender in range(3) if "step" in title else []:
            receiver = states[(sender + 1) % 3]
            # The cell in which the next rank's numbers change is the chunk that travels.
            chunk = next(c for c in range(3) if receiver[moment][c] != receiver[moment + 1][c])
            below = (
                [sender, -1] if sender == 2 else [sender]
            )  # the last sends to the first: out at the bottom, in above
            for row in below:
                start, arrow = row * 1.4 + 0.92, {"arrowstyle": "-|>", "linewidth": 2.5, "shrinkA": 0, "shrinkB": 0}
                ax.annotate("", (chunk + 0.46, start + 0.48), (chunk + 0.46, start), arrowprops=arrow | {"color": "k"})
