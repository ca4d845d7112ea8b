"""The look of every figure in the course: `from figures import BLUE, ORANGE, plt`.

What a colour stands for is written here alone. Readers who see no red or no green can tell all of
these apart, and a telephone shows the texts of a figure that is not wider than this.
"""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

BLUE = "#2563eb"
ORANGE = "#ea580c"
GREEN = "#216656"
GREY = "#8b929e"
BLACK = "#111827"
LINES = "#e5e7eb"  # of a grid, and what is empty

RANKS = [BLUE, ORANGE, GREEN, GREY]  # rank 0 is the first
PHASES = {  # of a training step: ax.barh(…, **PHASES["forward"])
    "data": {"color": BLACK, "edgecolor": "white"},
    "forward": {"color": GREY, "edgecolor": "white"},
    "backward": {"color": BLUE, "edgecolor": "white"},
    "all-reduce": {"color": ORANGE, "edgecolor": "white"},
    "waiting": {"color": "white", "edgecolor": "black", "hatch": "////"},
    "step": {"color": GREEN, "edgecolor": "white"},
}
PHASES["communication"] = PHASES["all-reduce"]

plt.rcParams.update(
    {
        "figure.figsize": (6.2, 3.4),
        "figure.dpi": 100,
        "font.size": 11,
        "axes.titlesize": 12,
        "xtick.labelsize": 10.5,
        "ytick.labelsize": 10.5,
        "legend.fontsize": 10.5,
        "legend.columnspacing": 1.2,
        "legend.handlelength": 1.6,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlelocation": "left",
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": LINES,
        "hatch.color": "black",
        "legend.frameon": False,
        "lines.linewidth": 2,
        "figure.constrained_layout.use": True,
    }
)


def legend(figure: Figure, columns: int = 3) -> None:
    """One legend for all axes of a figure, below them: there it covers no data."""
    handles = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    place = {"loc": "outside lower center", "ncols": columns}
    figure.legend(handles.values(), handles.keys(), **place)
