"""This lesson's pictures: who computes which scores, who waits, and what each way sends.

Import it: `from drawings import draw_masks, draw_shares, draw_steps, draw_ways`.
"""

from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Polygon, Rectangle

from figures import BLUE, ORANGE, PHASES, RANKS, legend, plt

WAITING = PHASES["waiting"]


def rank_patches(count: int) -> list[Patch]:
    return [Patch(color=RANKS[rank], label=f"rank {rank}") for rank in range(count)]


def draw_mask(ax: Axes, title: str, layout: Callable, world_size: int) -> None:
    """Rows are chunks of queries, columns chunks of keys; the colour is the rank that computes."""
    owner = {}
    for rank in range(world_size):
        for chunk in layout(rank, world_size):
            owner[chunk] = rank
    chunks = 2 * world_size
    for row in range(chunks):
        color = RANKS[owner[row]] if row in owner else "white"
        for column in range(row):
            ax.add_patch(Rectangle((column, row), 1, 1, facecolor=color, edgecolor="white"))
        corners = [(row, row), (row, row + 1), (row + 1, row + 1)]
        ax.add_patch(Polygon(corners, facecolor=color, edgecolor="white"))
    ax.set(xlim=(0, chunks), ylim=(chunks, 0), aspect="equal", title=title)
    middles = [chunk + 0.5 for chunk in range(chunks)]
    ax.set_xticks(middles, range(chunks))
    ax.set_yticks(middles, range(chunks))
    ax.set(xlabel="chunk of the keys", ylabel="chunk of the queries")
    ax.grid(False)


def draw_masks(layouts: dict[str, Callable], world_size: int) -> None:
    """The causal mask, coloured by the rank that computes it; one axes for each layout."""
    figure, axes = plt.subplots(1, len(layouts), figsize=(3.1 * len(layouts), 3.4), squeeze=False)
    for ax, (title, layout) in zip(axes[0], layouts.items(), strict=True):
        draw_mask(ax, title, layout, world_size)
    handles = rank_patches(world_size)
    figure.legend(handles=handles, loc="outside lower center", ncols=min(4, 2 * len(layouts)))


def draw_steps(works: dict[str, list[list[int]]]) -> None:
    """Blocks that each rank computes in each step of the ring; the step ends with the slowest."""
    figure, axes = plt.subplots(len(works), 1, figsize=(6.2, 1.9 * len(works)), sharex=True)
    for ax, (title, ranks) in zip(axes, works.items(), strict=True):
        begin = 0
        for blocks in zip(*ranks, strict=True):
            longest = max(blocks)
            for rank, count in enumerate(blocks):
                ax.barh(rank, longest, left=begin, label="waiting", **WAITING)
                ax.barh(rank, count, left=begin, color=RANKS[rank], edgecolor="white")
            begin += longest
            ax.axvline(begin, color="black", linewidth=0.8)
        names = [f"rank {rank}" for rank in range(len(ranks))]
        ax.set_yticks(range(len(ranks)), names)
        ax.set(title=title)
        ax.invert_yaxis()
    axes[-1].set(xlabel="blocks of scores, one after another")
    legend(figure)


def draw_ways(sent: dict[str, dict[str, list[float]]]) -> None:
    """For each shape and way: kB of activations and of gradients that one rank sends."""
    figure, axes = plt.subplots(1, len(sent), figsize=(6.2, 3.2), sharey=True, sharex=True)
    for ax, (shape, ways) in zip(axes, sent.items(), strict=True):
        activations = [each[0] / 1e6 for each in ways.values()]
        gradients = [each[1] / 1e6 for each in ways.values()]
        ax.barh(list(ways), activations, color=BLUE, label="activations")
        ax.barh(list(ways), gradients, left=activations, color=ORANGE, label="gradients of weights")
        ax.set(title=shape.replace("the ", "the\n"), xlabel="MB sent")
        ax.invert_yaxis()
    axes[0].set_yticks(range(len(ways)), list(ways))
    legend(figure)


def draw_shares(runs: dict[str, list[list[float]]]) -> None:
    """The share of all tokens that each expert gets, step by step."""
    figure, axes = plt.subplots(1, len(runs), figsize=(6.2, 3), sharey=True)
    for ax, (title, shares) in zip(axes, runs.items(), strict=True):
        of_experts = list(zip(*shares, strict=True))
        labels = [f"expert {expert}" for expert in range(len(of_experts))]
        ax.stackplot(range(len(shares)), of_experts, colors=RANKS, labels=labels)
        ax.set(title=title, xlabel="step", ylim=(0, 1), xlim=(0, len(shares) - 1))
    axes[0].set(ylabel="share of the tokens")
    legend(figure, columns=4)
