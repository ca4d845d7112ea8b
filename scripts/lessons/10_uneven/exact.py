"""One test set, one model, six reports: which answer depends on the number of ranks?

Run:  python exact.py
      torchrun --standalone --nproc-per-node=2 exact.py
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.utils.data import DistributedSampler

from devices import Place, here, report, start
from exam import exam, practise
from join import collectives

BATCH = 10  # samples in a batch of one rank


@torch.no_grad()
def tally(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Of a batch: right answers, sum of the losses, samples, (3,) in float64."""
    output = model(x)
    right = (output.argmax(1) == y).sum().double()
    loss = nn.functional.cross_entropy(output, y, reduction="sum")
    return torch.stack([right, loss, loss.new_tensor(len(y))])


def summed(model: nn.Module, x: Tensor, y: Tensor, place: Place) -> dict[str, float]:
    """Scores of all samples: each rank's sums over its share, one all-reduce, a division.

    Rank r of n takes the samples r, r + n, r + 2n, … A rank may have none.
    """
    totals = torch.zeros(3, dtype=torch.float64, device=place.device)
    n = place.world_size
    for first in range(place.rank, len(y), n * BATCH):
        part = slice(first, first + n * BATCH, n)
        totals += tally(model, x[part], y[part])
    dist.all_reduce(totals)
    right, loss, count = totals.tolist()
    counts = {"right": int(right), "count": int(count)}
    return counts | {"accuracy": right / count, "loss": loss / count}


def evaluate(model: nn.Module, x: Tensor, y: Tensor, place: Place) -> dict[str, float]:
    """Exact on any number of ranks: the scores of the model that rank 0 would save."""
    # After a training under DDP each rank has statistics of its own.
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)
    return summed(model, x, y, place)


def sampled(model: nn.Module, x: Tensor, y: Tensor, place: Place, drop_last: bool) -> Tensor:
    """This rank's sums (3,) by DistributedSampler, which pads, or drops what fills no batch."""
    sampler = DistributedSampler(
        range(len(y)), place.world_size, place.rank, shuffle=False, drop_last=drop_last
    )
    indices = torch.tensor(list(sampler), device=place.device)
    totals = torch.zeros(3, dtype=torch.float64, device=place.device)
    for part in indices.split(BATCH):
        if len(part) == BATCH or not drop_last:
            totals += tally(model, x[part], y[part])
    return totals


def wrong(model: nn.Module, x: Tensor, y: Tensor, place: Place) -> dict[str, dict[str, float]]:
    """The same predictions as rank 0 would report them in four ways that are common, and wrong."""
    padded = sampled(model, x, y, place, drop_last=False)
    dropped = sampled(model, x, y, place, drop_last=True)

    part = slice(place.rank, None, place.world_size)
    batches = zip(x[part].split(BATCH), y[part].split(BATCH), strict=True)
    own = torch.stack([tally(model, batch_x, batch_y) for batch_x, batch_y in batches])
    # The mean of each batch, then of a rank's batches, and then of the ranks.
    batch_means = own / own[:, 2:]
    means = batch_means.mean(0) / place.world_size

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
        reports[way] = {"accuracy": right / count, "loss": loss / count}
    return reports


def gather(mine: Tensor, place: Place) -> Tensor:
    """Numbers of all ranks, in the order of the test set: (N,) on every rank.

    A rank may have more of them than another, or none.
    """
    counts = torch.zeros(place.world_size, dtype=torch.int64, device=place.device)
    counts[place.rank] = len(mine)
    dist.all_reduce(counts)
    # `all_gather` wants pieces of one size: the shorter ones are filled up with zeros.
    size = int(counts.max())
    pieces = [mine.new_zeros(size) for _ in counts]
    filling = mine.new_zeros(size - len(mine))
    dist.all_gather(pieces, torch.cat([mine, filling]))
    # Sample 0 is the first of rank 0, sample 1 the first of rank 1, …; the zeros come last.
    in_order = torch.stack(pieces, 1).flatten()
    return in_order[: int(counts.sum())]


@torch.no_grad()
def medians(model: nn.Module, x: Tensor, y: Tensor, place: Place) -> dict[str, float]:
    """The median loss: from the losses of all samples, and as the mean of the ranks' medians."""
    part = slice(place.rank, None, place.world_size)
    losses = nn.functional.cross_entropy(model(x[part]), y[part], reduction="none")
    total = losses.median()
    dist.all_reduce(total)
    exact = gather(losses, place).median()
    return {"exact": exact.item(), "mean": total.item() / place.world_size}


@record
@torch.no_grad()
def main() -> None:
    place = here()
    start(place)
    model, x, y = exam(place)

    # Each rank's model on all samples, before anything is sent. On two ranks these are two models.
    ddp_model = practise(model, place)
    alone = int(tally(model, x, y)[0])
    own_statistics = summed(model, x, y, place)

    # From here on all ranks have rank 0's model.
    ways = {"exact": evaluate(model, x, y, place)} | wrong(model, x, y, place)
    ways["own statistics"] = own_statistics
    # The model itself does not communicate. Its DDP wrapper does, even without gradients: once.
    talk = {
        "wrapper, first forward": collectives(lambda: ddp_model(x)),
        "wrapper, second": collectives(lambda: ddp_model(x)),
        "model": collectives(lambda: model(x)),
    }
    median = medians(model, x, y, place)

    if place.rank == 0:
        for way, numbers in ways.items():
            print(f"{way:14} accuracy {numbers['accuracy']:7.2%}, loss {numbers['loss']:.4f}")
    report("exact", place, ways=ways, alone=alone, talk=talk, median=median)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
