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
        first = local * part
        end = first + local
        own = made[first:end]
        self.experts = nn.ModuleList(own)

    @staticmethod
    def expert(width: int) -> nn.Module:
        up = nn.Linear(width, 64)
        down = nn.Linear(64, width)
        return nn.Sequential(up, nn.GELU(), down)

    def choose(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """For each token: the probabilities and the numbers of the experts that it goes to."""
        scores = self.router(x)
        self.probabilities = scores.softmax(-1)
        return self.probabilities.topk(self.top)

    def forward(self, x: Tensor) -> Tensor:
        world_size = dist.get_world_size()
        gates, chosen = self.choose(x)
        # One row for each choice of a token, sorted by expert.
        choices = chosen.flatten()
        order = choices.argsort(stable=True)
        token = order // self.top
        self.counts = choices.bincount(minlength=self.count)

        # Counts first: nobody knows how many rows the others will send.
        arriving = torch.empty_like(self.counts)
        dist.all_to_all_single(arriving, self.counts)
        by_receiver = self.counts.view(world_size, -1)
        by_sender = arriving.view(world_size, -1)
        to_ranks = by_receiver.sum(1)
        from_ranks = by_sender.sum(1)
        give = to_ranks.tolist()
        get = from_ranks.tolist()

        # Then the rows, by sender and within each by expert.
        leaving = x[token]
        rows = Exchange.apply(leaving, give, get)
        self.rows = len(rows)
        local = len(self.experts)
        numbers = torch.arange(local, device=x.device)
        of_all_senders = numbers.repeat(world_size)
        expert = of_all_senders.repeat_interleave(arriving)
        out = torch.zeros_like(rows)
        for index, each in enumerate(self.experts):
            sent_here = expert == index
            own = sent_here.nonzero()[:, 0]
            computed = each(rows[own])
            out = out.index_copy(0, own, computed)

        # And home, each weighted by its gate.
        returned = Exchange.apply(out, get, give)
        weighted = returned * gates.flatten()[order, None]
        home = torch.zeros_like(x)
        return home.index_add(0, token, weighted)


class Dense(Mixture):
    """The same in one process: all experts here, and no messages."""

    def forward(self, x: Tensor) -> Tensor:
        gates, chosen = self.choose(x)
        choices = chosen.flatten()
        self.counts = choices.bincount(minlength=self.count)
        out = torch.zeros_like(x)
        for place in range(self.top):
            for index, each in enumerate(self.experts):
                picked = chosen[:, place] == index
                own = picked.nonzero()[:, 0]
                gate = gates[own, place, None]
                computed = each(x[own])
                weighted = gate * computed
                out = out.index_add(0, own, weighted)
        return out
