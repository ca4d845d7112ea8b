"""Two files, one longer: what is left over when the shorter one ends? Drop it, pad it, or train on under Join.

Run:  python leftover.py
      torchrun --standalone --nproc-per-node=2 leftover.py
"""

import argparse
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.join import Join
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report

BATCH = 32  # rows in a batch of one rank
OLD, NEW = 192, 15  # rows of kinds 0, 1 and 2, in random order; and rows of kind 3, appended later
CENTRES = torch.tensor([[-2.0, 0.0], [2.0, 0.0], [0.0, 3.0], [0.0, -3.0]])
WAYS = {  # whether each epoch shuffles, and what is done about ranks that have fewer batches than others
    "drop, in order": (False, dist.ReduceOp.MIN),
    "drop, shuffled": (True, dist.ReduceOp.MIN),
    "pad": (False, dist.ReduceOp.MAX),
    "Join": (False, None),
}


def spots(kinds: Tensor, seed: int) -> Tensor:
    """Points (N, 2) around the centres of their kinds (N,)."""
    return CENTRES[kinds] + 0.7 * torch.randn(len(kinds), 2, generator=torch.Generator().manual_seed(seed))


def agreed(batches: int, op: dist.ReduceOp, place: Place) -> int:
    """The smallest or the largest number of batches that any rank has: the same answer on every rank."""
    dist.all_reduce(number := torch.tensor(batches, device=place.device), op=op)
    return int(number)


def epoch(rows: Tensor, shuffle: bool, op: dist.ReduceOp | None, place: Place) -> Iterator[Tensor]:
    """The batches of one epoch, as row numbers of this rank's file."""
    batches = (rows[torch.randperm(len(rows))] if shuffle else rows).split(BATCH)
    steps = len(batches) if op is None else agreed(len(batches), op, place)
    for step in range(steps):
        yield batches[step % len(batches)]  # a rank that has too few starts again


def train(way: str, x: Tensor, y: Tensor, rows: Tensor, epochs: int, place: Place) -> tuple[nn.Module, Tensor]:
    """A network that has learnt from all ranks' files, and how often this rank saw each row, (N,)."""
    shuffle, op = WAYS[way]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 4)).to(place.device)
    ddp_model, seen = DistributedDataParallel(model), torch.zeros(len(y), device=place.device)
    torch.manual_seed(place.rank)
    for _ in range(epochs):
        with Join([ddp_model]) if way == "Join" else nullcontext():
            for batch in epoch(rows, shuffle, op, place):
                model.zero_grad()
                loss = nn.functional.cross_entropy(ddp_model(x[batch]), y[batch])
                loss.backward()
                with torch.no_grad():
                    for parameter in model.parameters():
                        parameter -= 0.3 * parameter.grad
                seen[batch] += 1
    return model, seen


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--timeout", type=float, default=60)
    args, place = parser.parse_args(), here()
    dist.init_process_group(place.backend, timeout=timedelta(seconds=args.timeout))

    y = torch.cat([torch.randint(3, (OLD,), generator=torch.Generator().manual_seed(0)), torch.full((NEW,), 3)])
    cuts = torch.arange(1, place.world_size) * OLD // place.world_size  # the last rank's file is the longer one
    rows = torch.arange(len(y)).tensor_split(cuts)[place.rank].to(place.device)
    x, y = spots(y, seed=1).to(place.device), y.to(place.device)
    test_y = torch.arange(4).repeat_interleave(50).to(place.device)
    test_x = spots(test_y.cpu(), seed=2).to(place.device)

    found = {}
    for way in WAYS:
        model, seen = train(way, x, y, rows, args.epochs, place)
        dist.all_reduce(seen)
        said = model(test_x).argmax(1)
        right = (said == test_y).view(4, 50).float().mean(1).tolist()
        found[way] = {"seen": seen.int().tolist(), "said": said.tolist(), "right": right}
        if place.rank == 0:
            print(f"{way:16} right in the test, kind by kind: {' '.join(f'{part:4.0%}' for part in right)}")
    report("leftover", place, files=cuts.tolist(), test=test_x.tolist(), ways=found)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
