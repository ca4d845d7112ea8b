"""A test set of 97 points and a classifier whose weights stay as they are. What does it say?

Run:  python exam.py
"""

import torch
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report

N = 97  # a prime: no share of a different size can hit upon the same accuracy by chance
CENTRES = [[3.0, 0.0], [0.0, 1.5], [0.0, 0.0]]
BATCHES = 20  # of a training, seen by each rank
POINTS = 4  # in a batch of one rank: so few that the ranks' statistics differ clearly
SEED = 3
BATCH = 10  # samples in a batch of one rank, when the model is tested
Scores = dict[str, float]  # of a model, by the name of the metric


def points(y: Tensor, generator: torch.Generator) -> Tensor:
    """A point (N, 2) in float64 near the centre of each class y (N,)."""
    centres = torch.tensor(CENTRES, dtype=torch.float64)
    noise = torch.randn(len(y), 2, generator=generator, dtype=torch.float64)
    return centres[y] + noise


def exam(place: Place) -> tuple[nn.Module, Tensor, Tensor]:
    """A model that names the nearest centre, and points x (N, 2) with classes y (N,).

    The points are sorted by class, as files often are.
    """
    y = torch.arange(N) * 3 // N
    generator = torch.Generator().manual_seed(0)
    x = points(y, generator)
    mean = x.mean(0)
    variance = x.var(0)

    # BatchNorm has buffers, its running statistics. Its weights undo what it does: so long as the
    # statistics are those of x, points come out as they went in.
    norm = nn.BatchNorm1d(2)
    # The nearest centre c is that of the largest c·x - |c|²/2, which a linear layer computes.
    linear = nn.Linear(2, 3)
    model = nn.Sequential(norm, linear).double()
    model.eval()
    deviation = (variance + norm.eps).sqrt()
    centres = torch.tensor(CENTRES, dtype=torch.float64)
    squares = centres.square().sum(1)
    with torch.no_grad():
        norm.running_mean.copy_(mean)
        norm.running_var.copy_(variance)
        norm.weight.copy_(deviation)
        norm.bias.copy_(mean)
        linear.weight.copy_(centres)
        linear.bias.copy_(-squares / 2)
    model = model.to(place.device)
    return model, x.to(place.device), y.to(place.device)


@torch.no_grad()
def tally(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Of a batch: right answers, sum of the losses, samples, (3,) in float64."""
    output = model(x)
    answers = output.argmax(1)
    correct = answers == y
    right = correct.sum().double()
    loss = nn.functional.cross_entropy(output, y, reduction="sum")
    count = loss.new_tensor(len(y))
    return torch.stack([right, loss, count])


@torch.enable_grad()
def practise(model: nn.Module, place: Place) -> DistributedDataParallel:
    """What a training under DDP does to BatchNorm: each rank's statistics follow its own batches.

    Before each forward, DDP copies rank 0's statistics to all; after the last one nobody does. The
    weights stay as they are, and rank 0's batches are the same on any number of ranks.
    """
    ddp_model = DistributedDataParallel(model)
    ddp_model.train()
    generator = torch.Generator().manual_seed(SEED + place.rank)
    for _ in range(BATCHES):
        y = torch.randint(3, (POINTS,), generator=generator)
        x = points(y, generator)
        output = ddp_model(x.to(place.device))
        loss = nn.functional.cross_entropy(output, y.to(place.device))
        loss.backward()  # no `step`: the gradients are not used
    return ddp_model.eval()


@record
def main() -> None:
    place = here()
    model, x, y = exam(place)
    output = model(x)
    answers = output.argmax(1)
    right = (answers == y).tolist()
    count = sum(right)
    print(f"{count} of {N} right")
    report("exam", place, right=right)


if __name__ == "__main__":
    main()
