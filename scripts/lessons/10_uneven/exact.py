"""One test set, one model, six reports: which answer depends on the number of ranks?

Run:  python exact.py
      torchrun --standalone --nproc-per-node=2 exact.py
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report, start
from exam import BATCH, Scores, exam, practise, tally
from join import collectives
from misreport import wrong


def summed(model: nn.Module, x: Tensor, y: Tensor, place: Place) -> Scores:
    """Scores of all samples: each rank's sums over its share, one all-reduce, a division.

    Rank r of n takes the samples r, r + n, r + 2n, … A rank may have none.
    """
    totals = torch.zeros(3, dtype=torch.float64, device=place.device)
    n = place.world_size
    stride = n * BATCH  # from a batch of this rank to its next
    for first in range(place.rank, len(y), stride):
        part = slice(first, first + stride, n)
        batch_x = x[part]
        batch_y = y[part]
        totals += tally(model, batch_x, batch_y)
    dist.all_reduce(totals)
    right, loss, count = totals.tolist()
    scores = {}
    scores["right"] = int(right)
    scores["count"] = int(count)
    scores["accuracy"] = right / count
    scores["loss"] = loss / count
    return scores


def evaluate(model: nn.Module, x: Tensor, y: Tensor, place: Place) -> Scores:
    """Exact on any number of ranks: the scores of the model that rank 0 would save."""
    # After a training under DDP each rank has statistics of its own.
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)
    return summed(model, x, y, place)


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
    missing = size - len(mine)
    filling = mine.new_zeros(missing)
    filled = torch.cat([mine, filling])
    dist.all_gather(pieces, filled)
    # Sample 0 is the first of rank 0, sample 1 the first of rank 1, …; the zeros come last.
    by_sample = torch.stack(pieces, 1)
    in_order = by_sample.flatten()
    total = int(counts.sum())
    return in_order[:total]


@torch.no_grad()
def medians(model: nn.Module, x: Tensor, y: Tensor, place: Place) -> dict[str, float]:
    """The median loss: from the losses of all samples, and as the mean of the ranks' medians."""
    part = slice(place.rank, None, place.world_size)
    own_x = x[part]
    own_y = y[part]
    output = model(own_x)
    losses = nn.functional.cross_entropy(output, own_y, reduction="none")
    total = losses.median()
    dist.all_reduce(total)
    mean = total.item() / place.world_size
    all_losses = gather(losses, place)
    exact = all_losses.median()
    return {"exact": exact.item(), "mean": mean}


@record
@torch.no_grad()
def main() -> None:
    place = here()
    start(place)
    model, x, y = exam(place)

    # Each rank's model on all samples, before anything is sent. On two ranks these are two models.
    ddp_model = practise(model, place)
    own_tally = tally(model, x, y)
    alone = int(own_tally[0])
    own_statistics = summed(model, x, y, place)

    # From here on all ranks have rank 0's model.
    ways = {"exact": evaluate(model, x, y, place)}
    ways |= wrong(model, x, y, place)
    ways["own statistics"] = own_statistics
    # The model itself does not communicate. Its DDP wrapper does, even without gradients: once.
    talk = {
        "wrapper, first forward": collectives(lambda: ddp_model(x)),
        "wrapper, second": collectives(lambda: ddp_model(x)),
        "model": collectives(lambda: model(x)),
    }
    median = medians(model, x, y, place)

    if place.rank == 0:
        for way, scores in ways.items():
            accuracy = scores["accuracy"]
            loss = scores["loss"]
            print(f"{way:14} accuracy {accuracy:7.2%}, loss {loss:.4f}")
    report("exact", place, ways=ways, batch=BATCH, alone=alone, talk=talk, median=median)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
