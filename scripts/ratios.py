"""Ratios with their spread and their aims: a row, the table of all, and its figure. For bench.py."""

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent / "lessons"))

from figures import BLUE, GREY, ORANGE, plt


def row(name: str, ratios: Sequence[float], aim: str = "", note: str = "") -> dict:
    """One line of the table; `aim` as "≥ 1.3"."""
    return {"row": name, "ratio": median(ratios), "low": min(ratios), "high": max(ratios), "aim": aim, "note": note}


def over(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [one / two for one, two in zip(ours, theirs, strict=True)]


def short(row: dict) -> float | None:
    """By which part of its aim a row misses it; 0 where it is reached, None where there is no aim."""
    if not row["aim"]:
        return None
    sign, aim = row["aim"].split()
    missed = 1 - row["ratio"] / float(aim)
    return max(0.0, missed if sign == "≥" else -missed)


def table(rows: list[dict]) -> str:
    lines = [f"{'':64}{'median':>7}  {'lowest – highest':17} aim"]
    for one in rows:
        missing = short(one)
        verdict = "" if missing is None else f"missed by {missing:.1%}" if missing else "reached"
        spread = f"{one['low']:.2f} – {one['high']:.2f}"
        lines.append(f"{one['row']:64}{one['ratio']:7.2f}  {spread:17} {one['aim']:8} {verdict}".rstrip())
        lines += [f"    {one['note']}"] if one["note"] else []
    return "\n".join(lines)


def draw(rows: list[dict], title: str, path: Path) -> None:
    """A line from the lowest to the highest ratio of each row, its median, and its aim, on a logarithmic axis."""
    fig, ax = plt.subplots(figsize=(11, 1.5 + 0.32 * len(rows)))
    for y, one in enumerate(rows):
        color = {None: GREY, 0.0: BLUE}.get(short(one), ORANGE)
        ax.plot([one["low"], one["high"]], [y, y], color=color, linewidth=3)
        ax.plot(one["ratio"], y, "o", color=color)
        said = f"{one['ratio']:.2f}"
        if one["aim"]:
            ax.plot(float(one["aim"].split()[1]), y, "|", color="black", markersize=14, markeredgewidth=1.5)
            said += f", aim {one['aim']}"
        ax.text(1.01, y, said, transform=ax.get_yaxis_transform(), color=color, va="center", fontsize=11)
    ax.axvline(1, color=GREY, linewidth=1, zorder=0)
    ax.set(xscale="log", yticks=range(len(rows)), yticklabels=[one["row"] for one in rows])
    low, high = ax.get_xlim()
    steps = [0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50]
    ax.set_xticks([step for step in steps if low <= step <= high])
    ax.set_xticks([], minor=True)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.grid(axis="y", visible=False)
    ax.invert_yaxis()
    for label, color in (("aim reached", BLUE), ("aim missed", ORANGE), ("no aim", GREY)):
        ax.plot([], [], "o-", color=color, linewidth=3, label=label)
    ax.plot([], [], "|", color="black", markersize=14, markeredgewidth=1.5, label="aim")
    fig.legend(loc="outside lower center", ncols=4)
    fig.suptitle(title, x=0.01, ha="left")
    fig.savefig(path)
    plt.close(fig)
