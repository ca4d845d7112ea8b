"""The look of every figure in the course: `from figures import BLUE, ORANGE, plt`."""

import matplotlib.pyplot as plt

BLUE = "#2563eb"
ORANGE = "#ea580c"
GREEN = "#059669"
GREY = "#9ca3af"

plt.rcParams.update(
    {
        "figure.figsize": (7, 3.6),
        "figure.dpi": 110,
        "font.size": 12,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlelocation": "left",
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#e5e7eb",
        "legend.frameon": False,
        "lines.linewidth": 2,
        "figure.constrained_layout.use": True,
    }
)
