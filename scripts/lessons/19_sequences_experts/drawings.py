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
        patches.append(Patch(color=RANKS[rank], label=f"rank {rank}"))
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
            color = RANKS[owner[row]]
        look = {"facecolor": color, "edgecolor": "white"}
        for column in range(row):
            square = Rectangle((column, row), 1, 1, **look)
            ax.add_patch(square)
        # Within a chunk no query sees a later key: below the diagonal only.
        corners = [(row, row), (row, row + 1), (row + 1, row + 1)]
        triangle = Polygon(corners, **look)
        ax.add_patch(triangle)
    ax.set(title=title, aspect="equal")
    ax.set(xlim=(0, chunks), ylim=(chunks, 0))
    numbers = range(chunks)
    middles = [chunk + 0.5 for chunk in numbers]
    ax.set_xticks(middles, numbers)
    ax.set_yticks(middles, numbers)
    ax.set(xlabel="chunk of the keys", ylabel="chunk of the queries")
    ax.grid(False)


def draw_masks(layouts: dict[str, Callable], world_size: int) -> None:
    """The causal mask, coloured by the rank that computes it; one axes for each layout."""
    count = len(layouts)
    size = (3.1 * count, 3.4)
    figure, axes = plt.subplots(1, count, figsize=size, squeeze=False)
    for ax, title in zip(axes[0], layouts, strict=True):
        draw_mask(ax, title, layouts[title], world_size)
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
        names = [f"rank {rank}" for rank in range(len(ranks))]
        ax.set_yticks(range(len(ranks)), names)
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
        activations = [each[0] / 1e6 for each in ways.values()]
        gradients = [each[1] / 1e6 for each in ways.values()]
        ax.barh(names, activations, color=BLUE, label="activations")
        look = {"color": ORANGE, "label": "gradients of weights"}
        ax.barh(names, gradients, left=activations, **look)
        title = shape.replace("the ", "the\n")
        ax.set(title=title, xlabel="MB sent")
        ax.invert_yaxis()
    axes[0].set_yticks(range(len(names)), names)
    legend(figure)


def draw_shares(runs: dict[str, list[list[float]]]) -> None:
    """The share of all tokens that each expert gets, step by step."""
    figure, axes = plt.subplots(1, len(runs), figsize=(6.2, 3), sharey=True)
    for ax, title in zip(axes, runs, strict=True):
        shares = runs[title]
        of_experts = list(zip(*shares, strict=True))
        labels = [f"expert {expert}" for expert in range(len(of_experts))]
        steps = len(shares)
        ax.stackplot(range(steps), of_experts, colors=RANKS, labels=labels)
        ax.set(title=title, xlabel="step")
        ax.set(ylim=(0, 1), xlim=(0, steps - 1))
    axes[0].set(ylabel="share of the tokens")
    legend(figure, columns=4)
