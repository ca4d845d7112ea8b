"""One test set, the same predictions, five ways to report them: which answer depends on the number of ranks?

Run:  python exact.py
      torchrun --standalone --nproc-per-node=2 exact.py
"""

import argparse
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from devices import Place, here, report
from exam import exam
from join import collectives

BATCH = 10  # samples in a batch of one rank


@torch.no_grad()
def tally(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Of a batch: right answers, sum of the losses, samples, (3,) in float64."""
    output = model(x)
    losses = nn.functional.cross_entropy(output, y, reduction="sum")
    return torch.stack([(output.argmax(1) == y).sum().double(), losses, losses.new_tensor(len(y))])


def evaluate(model: nn.Module, x: Tensor, y: Tensor, place: Place) -> dict[str, float]:
    """Exact on any number of ranks, even if some have no sample: sums, one all-reduce, and only then a division."""
    totals, stride = torch.zeros(3, dtype=torch.float64, device=place.device), place.world_size
    for first in range(place.rank, len(y), stride * BATCH):
        part = slice(first, first + stride * BATCH, stride)
        totals += tally(model, x[part], y[part])
    dist.all_reduce(totals)
    right, loss, count = totals.tolist()
    return {"right": int(right), "count": int(count), "accuracy": right / count, "loss": loss / count}


def wrong(model: nn.Module, x: Tensor, y: Tensor, place: Place) -> dict[str, dict[str, float]]:
    """The same predictions as rank 0 would report them in four ways that are common, and wrong."""

    def tallies(drop_last: bool) -> list[Tensor]:
        """This rank's batches by DistributedSampler, which pads, or leaves out what does not fill a whole batch."""
        sampler = DistributedSampler(range(len(y)), place.world_size, place.rank, shuffle=False, drop_last=drop_last)
        parts = torch.tensor(list(sampler), device=place.device).split(BATCH)
        return [tally(model, x[part], y[part]) for part in parts if len(part) == BATCH or not drop_last]

    padded, dropped = (torch.stack(tallies(drop_last)).sum(0) for drop_last in (False, True))
    part = slice(place.rank, None, place.world_size)
    batches = zip(x[part].split(BATCH), y[part].split(BATCH), strict=True)
    own = torch.stack([tally(model, *batch) for batch in batches])
    means = (own / own[:, 2:]).mean(0) / place.world_size  # the mean of a batch, of a rank's batches, of the ranks
    for sums in (padded, dropped, means):
        dist.all_reduce(sums)
    ways = {"padded": padded, "dropped": dropped, "rank 0 alone": own.sum(0), "mean of means": means}
    return {way: {"accuracy": (s[0] / s[2]).item(), "loss": (s[1] / s[2]).item()} for way, s in ways.items()}


def gather(mine: Tensor, place: Place) -> Tensor:
    """Numbers of all ranks, which may have more or fewer of them, in the order of the test set: (N,) on every rank."""
    counts = torch.zeros(place.world_size, dtype=torch.int64, device=place.device)
    counts[place.rank] = len(mine)
    dist.all_reduce(counts)
    pieces = [mine.new_zeros(int(counts.max())) for _ in counts]  # pieces of one size, as `all_gather` wants them
    dist.all_gather(pieces, torch.cat([mine, mine.new_zeros(len(pieces[0]) - len(mine))]))
    return torch.stack(pieces, 1).flatten()[: int(counts.sum())]  # sample 0 of rank 0, 1 of rank 1, …; zeros come last


@record
@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timeout", type=float, default=60)
    args, place = parser.parse_args(), here()
    dist.init_process_group(place.backend, timeout=timedelta(seconds=args.timeout))

    model, x, y = exam(place)
    ways = {"exact": evaluate(model, x, y, place)} | wrong(model, x, y, place)
    ddp_model = DistributedDataParallel(model)
    talk = {"wrapper": collectives(lambda: ddp_model(x)), "model": collectives(lambda: model(x))}
    part = slice(place.rank, None, place.world_size)
    losses = nn.functional.cross_entropy(model(x[part]), y[part], reduction="none")
    dist.all_reduce(medians := losses.median())
    median = {"exact": gather(losses, place).median().item(), "mean": medians.item() / place.world_size}
    for way, numbers in ways.items() if place.rank == 0 else ():
        print(f"{way:14} accuracy {numbers['accuracy']:7.2%}, loss {numbers['loss']:.4f}")
    report("exact", place, ways=ways, talk=talk, median=median)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
