"""The rows of the bench as a table and as a figure. For course.measure."""

from pathlib import Path

from course import rooms
from course.measure.verdicts import verdict

figures = rooms.load("figures")
plt = figures.plt

TICKS = [0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50]  # of the ratios' axis
NO_INTERVAL = {
    "range": "no interval, only the lowest and the highest",
    "once": "no interval: measured once",
    "count": "counted, not timed",
}
LONG = 60  # letters of the longest name


def outcome(row: dict) -> str:
    """The verdict on a row's aim. What was counted is its own interval; a range is none."""
    exact = row["span"] in ("interval", "count")
    bounds = (row["low"], row["high"]) if exact else None
    return verdict(bounds, row["aim"], row["limit"])


def words(row: dict) -> str:
    """What the table says of a row's aim."""
    said = outcome(row)
    if said == "missed":
        missed = abs(1 - row["ratio"] / float(row["aim"].split()[1]))
        said += f" by {missed:.1%}"
    return said


def time(seconds: float) -> str:
    """Seconds in a unit that suits them: "73 µs", "24.9 ms", "3.1 s"."""
    if seconds < 1e-3:
        return f"{1e6 * seconds:.0f} µs"
    return f"{1e3 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def notes(row: dict) -> str:
    """What stands below a row: what its span is, the medians of both sides, and its note."""
    times = " / ".join(map(time, row["seconds"]))
    return "; ".join(filter(None, [NO_INTERVAL.get(row["span"]), times, row["note"]]))


def table(rows: list[dict]) -> str:
    lines = [f"{'':{LONG}}{'median':>7}  {'95 % interval':15} rounds  aim"]
    for row in rows:
        span = f"{row['low']:.2f} – {row['high']:.2f}"
        numbers = f"{row['ratio']:7.2f}  {span:15} {row['rounds']:6}"
        line = f"{row['row']:{LONG}}{numbers}  {row['aim']:8} {words(row)}"
        lines.append(line.rstrip())
        if notes(row):
            lines.append(f"    {notes(row)}")
    return "\n".join(lines)


COLORS = {
    "reached": figures.BLUE,
    "cannot tell": figures.GREEN,
    "missed": figures.ORANGE,
    "": figures.GREY,
}


def draw_row(ax: plt.Axes, y: int, row: dict) -> None:
    """The span of a row as a line, its median, its aim, and both in words at the right."""
    color = COLORS.get(outcome(row), figures.GREY)
    ax.plot([row["low"], row["high"]], [y, y], color=color, linewidth=3)
    ax.plot(row["ratio"], y, "o", color=color)
    text = f"{row['ratio']:.2f}"
    if row["aim"]:
        aim = float(row["aim"].split()[1])
        ax.plot(aim, y, "|", color="black", markersize=14, markeredgewidth=1.5)
        text += f", aim {row['aim']}"
    at_the_right = ax.get_yaxis_transform()
    ax.text(1.01, y, text, transform=at_the_right, color=color, va="center", fontsize=11)


def draw(rows: list[dict], title: str, path: Path) -> None:
    """All ratios over one logarithmic axis, as a figure in `path`. Rows of seconds are left out."""
    drawn = [row for row in rows if not row["unit"]]
    figure, ax = plt.subplots(figsize=(11, 1.5 + 0.32 * len(drawn)))
    for y, row in enumerate(drawn):
        draw_row(ax, y, row)
    ax.axvline(1, color=figures.GREY, linewidth=1, zorder=0)

    names = [row["row"] for row in drawn]
    ax.set(xscale="log", yticks=range(len(drawn)), yticklabels=names)
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
