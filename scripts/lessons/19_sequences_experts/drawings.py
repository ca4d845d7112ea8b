"""This lesson's pictures: who computes which scores, who waits, and what each way sends.

Import it: `from drawings import draw_masks, draw_shares, draw_steps, draw_ways`.
"""

from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Polygon, Rectangle

from figures import BLUE, ORANGE, PHASES, RANKS, legend, plt

WAITING = PHASES["waiting"]


def rank_patches(count: int) -> list[Patch]:
    """One entry of a legend for each rank, in the rank's colour."""
    patches = []
    for rank in range(count):
        patch = Patch(color=RANKS[rank], label=f"rank {rank}")
        patches.append(patch)
    return patches


def draw_mask(ax: Axes, title: str, layout: Callable, world_size: int) -> None:
    """Rows are chunks of queries, columns chunks of keys; the colour is the rank that computes."""
    owner = {}
    for rank in range(world_size):
        for chunk in layout(rank, world_size):
            owner[chunk] = rank
    chunks = 2 * world_size
    for row in range(chunks):
        color = "white"
        if row in owner:
            rank = owner[row]
            color = RANKS[rank]
        look = {"facecolor": color, "edgecolor": "white"}
        for column in range(row):
            corner = (column, row)
            square = Rectangle(corner, 1, 1, **look)
            ax.add_patch(square)
        # Within a chunk no query sees a later key: below the diagonal only.
        end = row + 1
        corners = [(row, row), (row, end), (end, end)]
        triangle = Polygon(corners, **look)
        ax.add_patch(triangle)
    ax.set(title=title, aspect="equal")
    ax.set_xlim(0, chunks)
    ax.set_ylim(chunks, 0)  # row 0 is at the top
    numbers = range(chunks)
    middles = [chunk + 0.5 for chunk in numbers]
    ax.set_xticks(middles, numbers)
    ax.set_yticks(middles, numbers)
    ax.set_xlabel("chunk of the keys")
    ax.set_ylabel("chunk of the queries")
    ax.grid(False)


def draw_masks(layouts: dict[str, Callable], world_size: int) -> None:
    """The causal mask, coloured by the rank that computes it; one axes for each layout."""
    count = len(layouts)
    size = (3.1 * count, 3.4)
    figure, axes = plt.subplots(1, count, figsize=size, squeeze=False)
    for ax, title in zip(axes[0], layouts, strict=True):
        layout = layouts[title]
        draw_mask(ax, title, layout, world_size)
    handles = rank_patches(world_size)
    columns = min(4, 2 * count)
    figure.legend(handles=handles, loc="outside lower center", ncols=columns)


def draw_steps(works: dict[str, list[list[int]]]) -> None:
    """Blocks that each rank computes in each step of the ring; the step ends with the slowest."""
    count = len(works)
    size = (6.2, 1.9 * count)
    figure, axes = plt.subplots(count, 1, figsize=size, sharex=True)
    for ax, title in zip(axes, works, strict=True):
        ranks = works[title]
        begin = 0
        steps = zip(*ranks, strict=True)
        for blocks in steps:
            longest = max(blocks)
            for rank, computed in enumerate(blocks):
                color = RANKS[rank]
                ax.barh(rank, longest, left=begin, label="waiting", **WAITING)
                ax.barh(rank, computed, left=begin, color=color, edgecolor="white")
            begin += longest
            ax.axvline(begin, color="black", linewidth=0.8)
        numbers = range(len(ranks))
        names = [f"rank {rank}" for rank in numbers]
        ax.set_yticks(numbers, names)
        ax.set(title=title)
        ax.invert_yaxis()
    axes[-1].set(xlabel="blocks of scores, one after another")
    legend(figure)


def draw_ways(sent: dict[str, dict[str, list[float]]]) -> None:
    """For each shape and way: MB of activations and of gradients that one rank sends."""
    size = (6.2, 3.2)
    figure, axes = plt.subplots(1, len(sent), figsize=size, sharey=True, sharex=True)
    for ax, shape in zip(axes, sent, strict=True):
        ways = sent[shape]
        names = list(ways)
        activations = []
        gradients = []
        for of_activations, of_gradients in ways.values():
            activations.append(of_activations / 1e6)
            gradients.append(of_gradients / 1e6)
        ax.barh(names, activations, color=BLUE, label="activations")
        look = {"color": ORANGE, "label": "gradients of weights"}
        ax.barh(names, gradients, left=activations, **look)
        title = shape.replace("the ", "the\n")
        ax.set_title(title)
        ax.set_xlabel("MB sent")
        ax.invert_yaxis()
    numbers = range(len(names))
    axes[0].set_yticks(numbers, names)
    legend(figure)


def draw_shares(runs: dict[str, list[list[float]]]) -> None:
    """The share of all tokens that each expert gets, step by step."""
    size = (6.2, 3)
    figure, axes = plt.subplots(1, len(runs), figsize=size, sharey=True)
    for ax, title in zip(axes, runs, strict=True):
        shares = runs[title]
        of_experts = list(zip(*shares, strict=True))
        experts = range(len(of_experts))
        labels = [f"expert {expert}" for expert in experts]
        steps = len(shares)
        ax.stackplot(range(steps), of_experts, colors=RANKS, labels=labels)
        ax.set(title=title, xlabel="step")
        ax.set_ylim(0, 1)
        ax.set_xlim(0, steps - 1)
    axes[0].set(ylabel="share of the tokens")
    legend(figure, columns=4)
