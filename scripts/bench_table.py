"""Ratios with their spread and their aims: a row, the table and the figure of all. For bench.py."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

import rooms

figures = rooms.load("figures")
plt = figures.plt

TICKS = [0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50]  # of the ratios' axis


def row(name: str, ratios: Sequence[float], aim: str = "", note: str = "") -> dict:
    """One line of the table; `aim` as "≥ 1.3"."""
    spread = {"ratio": median(ratios), "low": min(ratios), "high": max(ratios)}
    return {"row": name, **spread, "aim": aim, "note": note}


def over(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Ours / theirs, round by round."""
    pairs = zip(ours, theirs, strict=True)
    return [our_number / their_number for our_number, their_number in pairs]


def short(row: dict, ratio: float) -> float:
    """By which part of a row's aim a ratio misses it; negative if it is better than the aim."""
    sign, aim = row["aim"].split()
    missed = 1 - ratio / float(aim)
    return -missed if sign == "≤" else missed


def outcome(row: dict) -> str:
    """What became of a row's aim: "reached" or "missed" by the whole spread, or "unclear"."""
    if not row["aim"]:
        return ""
    ends = [short(row, row["low"]), short(row, row["high"])]
    if max(ends) <= 0:
        return "reached"
    return "missed" if min(ends) > 0 else "unclear"


def verdict(row: dict) -> str:
    """What the table says of a row's aim."""
    said = outcome(row)
    if said == "missed":
        said += f" by {short(row, row['ratio']):.1%}"
    return said


def table(rows: list[dict]) -> str:
    lines = [f"{'':64}{'median':>7}  {'lowest – highest':17} aim"]
    for row in rows:
        spread = f"{row['low']:.2f} – {row['high']:.2f}"
        numbers = f"{row['ratio']:7.2f}  {spread:17}"
        line = f"{row['row']:64}{numbers} {row['aim']:8} {verdict(row)}"
        lines.append(line.rstrip())
        if row["note"]:
            lines.append(f"    {row['note']}")
    return "\n".join(lines)


COLORS = {
    "reached": figures.BLUE,
    "unclear": figures.GREEN,
    "missed": figures.ORANGE,
    "": figures.GREY,
}


def draw_row(ax: plt.Axes, y: int, row: dict) -> None:
    """The spread of a row as a line, its median, its aim, and both in words at the right."""
    color = COLORS[outcome(row)]
    ax.plot([row["low"], row["high"]], [y, y], color=color, linewidth=3)
    ax.plot(row["ratio"], y, "o", color=color)
    words = f"{row['ratio']:.2f}"
    if row["aim"]:
        aim = float(row["aim"].split()[1])
        ax.plot(aim, y, "|", color="black", markersize=14, markeredgewidth=1.5)
        words += f", aim {row['aim']}"
    at_the_right = ax.get_yaxis_transform()
    ax.text(1.01, y, words, transform=at_the_right, color=color, va="center", fontsize=11)


def draw(rows: list[dict], title: str, path: Path) -> None:
    """All rows over one logarithmic axis, as a figure in `path`."""
    figure, ax = plt.subplots(figsize=(11, 1.5 + 0.32 * len(rows)))
    for y, row in enumerate(rows):
        draw_row(ax, y, row)
    ax.axvline(1, color=figures.GREY, linewidth=1, zorder=0)

    names = [row["row"] for row in rows]
    ax.set(xscale="log", yticks=range(len(rows)), yticklabels=names)
    low, high = ax.get_xlim()
    ax.set_xticks([tick for tick in TICKS if low <= tick <= high])
    ax.set_xticks([], minor=True)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.grid(axis="y", visible=False)
    ax.invert_yaxis()

    # The legend explains lines that no row may have drawn.
    for name, color in COLORS.items():
        label = f"aim {name}" if name else "no aim"
        ax.plot([], [], "o-", color=color, linewidth=3, label=label)
    ax.plot([], [], "|", color="black", markersize=14, markeredgewidth=1.5, label="aim")
    figure.legend(loc="outside lower center", ncols=5)
    figure.suptitle(title, x=0.01, ha="left")
    figure.savefig(path)
    plt.close(figure)
