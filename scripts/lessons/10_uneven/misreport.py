"""Four common reports on a model, all of them wrong: on two ranks and more, or even on one.

Use:  from misreport import wrong
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DistributedSampler

from devices import Place
from exam import BATCH, Scores, tally


def sampled(model: nn.Module, x: Tensor, y: Tensor, place: Place, drop_last: bool) -> Tensor:
    """This rank's sums (3,) by DistributedSampler, which pads, or drops what fills no batch."""
    samples = range(len(y))
    sampler = DistributedSampler(
        samples, place.world_size, place.rank, shuffle=False, drop_last=drop_last
    )
    share = list(sampler)
    indices = torch.tensor(share, device=place.device)
    totals = torch.zeros(3, dtype=torch.float64, device=place.device)
    for part in indices.split(BATCH):
        if len(part) == BATCH or not drop_last:
            totals += tally(model, x[part], y[part])
    return totals


def wrong(model: nn.Module, x: Tensor, y: Tensor, place: Place) -> dict[str, Scores]:
    """The same predictions as rank 0 would report them in four ways that are common, and wrong."""
    padded = sampled(model, x, y, place, drop_last=False)
    dropped = sampled(model, x, y, place, drop_last=True)

    part = slice(place.rank, None, place.world_size)
    own_x = x[part].split(BATCH)
    own_y = y[part].split(BATCH)
    tallies = []
    for batch_x, batch_y in zip(own_x, own_y, strict=True):
        tallies.append(tally(model, batch_x, batch_y))
    own = torch.stack(tallies)
    # Wrong, as the last batch counts as much as the others, though it may be smaller.
    batch_means = own / own[:, 2:]
    rank_mean = batch_means.mean(0)
    means = rank_mean / place.world_size

    for sums in (padded, dropped, means):
        dist.all_reduce(sums)
    totals = {
        "padded": padded,
        "dropped": dropped,
        "rank 0 alone": own.sum(0),
        "mean of means": means,
    }
    reports = {}
    for way, sums in totals.items():
        right, loss, count = sums.tolist()
        accuracy = right / count
        mean_loss = loss / count
        reports[way] = {"accuracy": accuracy, "loss": mean_loss}
    return reports
