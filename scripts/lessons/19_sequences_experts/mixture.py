"""A layer of experts, some on each rank: tokens travel to the experts that the router chooses.

Import it: experts.py and balance.py launch it.
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn

from crossings import Exchange


class Mixture(nn.Module):
    """A router, and this part of the experts; [tokens, d] → [tokens, d]."""

    def __init__(self, width: int, experts: int, top: int, parts: int = 1, part: int = 0) -> None:
        super().__init__()
        self.top = top  # to how many experts a token goes
        self.count = experts
        self.router = nn.Linear(width, experts, bias=False)
        # From one seed all ranks make the same experts; each keeps its own.
        made = [self.expert(width) for _ in range(experts)]
        local = experts // parts
        self.experts = nn.ModuleList(made[local * part : local * (part + 1)])

    @staticmethod
    def expert(width: int) -> nn.Module:
        return nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

    def choose(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities of all experts, and the numbers of those that each token goes to."""
        self.probabilities = self.router(x).softmax(-1)
        return self.probabilities.topk(self.top)

    def forward(self, x: Tensor) -> Tensor:
        world_size = dist.get_world_size()
        gates, chosen = self.choose(x)
        # One row for each choice of a token, sorted by expert.
        order = chosen.flatten().argsort(stable=True)
        token = order // self.top
        self.counts = chosen.flatten().bincount(minlength=self.count)

        # Counts first: nobody knows how many rows the others will send.
        arriving = torch.empty_like(self.counts)
        dist.all_to_all_single(arriving, self.counts)
        give = self.counts.view(world_size, -1).sum(1).tolist()
        get = arriving.view(world_size, -1).sum(1).tolist()

        # Then the rows, by sender and within each by expert.
        rows = Exchange.apply(x[token], give, get)
        self.rows = len(rows)
        expert = torch.arange(len(self.experts), device=x.device).repeat(world_size)
        expert = expert.repeat_interleave(arriving)
        out = torch.zeros_like(rows)
        for index, each in enumerate(self.experts):
            own = (expert == index).nonzero()[:, 0]
            out = out.index_copy(0, own, each(rows[own]))

        # And home, each weighted by its gate.
        returned = Exchange.apply(out, get, give)
        weighted = returned * gates.flatten()[order, None]
        return torch.zeros_like(x).index_add(0, token, weighted)


class Dense(Mixture):
    """The same in one process: all experts here, and no messages."""

    def forward(self, x: Tensor) -> Tensor:
        gates, chosen = self.choose(x)
        self.counts = chosen.flatten().bincount(minlength=self.count)
        out = torch.zeros_like(x)
        for place in range(self.top):
            for index, each in enumerate(self.experts):
                own = (chosen[:, place] == index).nonzero()[:, 0]
                gate = gates[own, place, None]
                out = out.index_add(0, own, gate * each(x[own]))
        return out
