"""Two files, one longer: what becomes of its last rows? Drop them, pad, or train on under Join.

Run:  python leftover.py
      torchrun --standalone --nproc-per-node=2 leftover.py
"""

import argparse
from collections.abc import Iterator
from contextlib import nullcontext
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.join import Join
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report, start

BATCH = 32  # rows in a batch of one rank
OLD = 192  # rows of kinds 0, 1 and 2, in random order
NEW = 15  # rows of kind 3, appended later
CENTRES = torch.tensor([[-2.0, 0.0], [2.0, 0.0], [0.0, 3.0], [0.0, -3.0]])


class Way(NamedTuple):
    """What is done about ranks that have fewer batches than others.

    All take the smallest or the largest number of batches (`agree`), or each takes its own (None).
    """

    agree: dist.ReduceOp | None
    shuffle: bool = False  # in each epoch


WAYS = {
    "drop, in order": Way(dist.ReduceOp.MIN),
    "drop, shuffled": Way(dist.ReduceOp.MIN, shuffle=True),
    "pad": Way(dist.ReduceOp.MAX),
    "Join": Way(None),
}


def row_kinds() -> Tensor:
    """The kind of each row (OLD + NEW,)."""
    generator = torch.Generator().manual_seed(0)
    old = torch.randint(3, (OLD,), generator=generator)
    new = torch.full((NEW,), 3)
    return torch.cat([old, new])


def spots(kinds: Tensor, seed: int) -> Tensor:
    """Points (N, 2) around the centres of their kinds (N,)."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(len(kinds), 2, generator=generator)
    return CENTRES[kinds] + 0.7 * noise


def agreed(batches: int, op: dist.ReduceOp, place: Place) -> int:
    """The smallest or the largest number of batches of any rank: the same answer on every rank."""
    number = torch.tensor(batches, device=place.device)
    dist.all_reduce(number, op=op)
    return int(number)


def epoch(rows: Tensor, way: Way, place: Place) -> Iterator[Tensor]:
    """The batches of one epoch, as row numbers of this rank's file."""
    if way.shuffle:
        order = torch.randperm(len(rows))
        rows = rows[order]
    batches = rows.split(BATCH)
    steps = len(batches)
    if way.agree is not None:
        steps = agreed(steps, way.agree, place)
    for step in range(steps):
        yield batches[step % len(batches)]  # a rank that has too few starts again


def train(
    name: str, x: Tensor, y: Tensor, rows: Tensor, epochs: int, place: Place
) -> tuple[nn.Module, Tensor]:
    """A network that learnt from all ranks' files; how often this rank saw each row (N,)."""
    torch.manual_seed(0)
    hidden = nn.Linear(2, 16)
    head = nn.Linear(16, 4)
    model = nn.Sequential(hidden, nn.Tanh(), head)
    model = model.to(place.device)
    ddp_model = DistributedDataParallel(model)
    seen = torch.zeros(len(y), device=place.device)
    torch.manual_seed(place.rank)
    for _ in range(epochs):
        block = Join([ddp_model]) if name == "Join" else nullcontext()
        with block:
            for batch in epoch(rows, WAYS[name], place):
                model.zero_grad()
                output = ddp_model(x[batch])
                loss = nn.functional.cross_entropy(output, y[batch])
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
    args = parser.parse_args()
    place = here()
    start(place)

    # All rows, and which of them stand in this rank's file: the last file is the longer one.
    y = row_kinds()
    later_ranks = torch.arange(1, place.world_size)
    cuts = later_ranks * OLD // place.world_size
    row_numbers = torch.arange(len(y))
    files = row_numbers.tensor_split(cuts)
    rows = files[place.rank].to(place.device)
    x = spots(y, seed=1).to(place.device)
    y = y.to(place.device)

    # A test of 50 points of each kind, the same on every rank.
    test_y = torch.arange(4).repeat_interleave(50)
    test_x = spots(test_y, seed=2).to(place.device)
    test_y = test_y.to(place.device)

    runs = {}
    for name in WAYS:
        model, seen = train(name, x, y, rows, args.epochs, place)
        dist.all_reduce(seen)
        output = model(test_x)
        answers = output.argmax(1)
        correct = (answers == test_y).view(4, 50)
        accuracy = correct.float().mean(1)
        right = accuracy.tolist()
        counts = seen.int().tolist()
        runs[name] = {"seen": counts, "said": answers.tolist(), "right": right}
        if place.rank == 0:
            shares = [f"{share:4.0%}" for share in right]
            print(f"{name:16} right in the test, kind by kind:", *shares)
    report("leftover", place, files=cuts.tolist(), test=test_x.tolist(), ways=runs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
