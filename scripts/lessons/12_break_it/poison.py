"""One pair of equal rows on one rank: its gradient is NaN, and the average carries it to all ranks.

Run:  torchrun --standalone --nproc-per-node=3 poison.py
"""

import argparse
import warnings

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report, start

BAD_STEP = 12


def pairs(step: int, place: Place) -> tuple[Tensor, Tensor]:
    """Sixteen pairs of points with four coordinates, different on each rank and in each step."""
    seed = 1000 * step + place.rank
    generator = torch.Generator().manual_seed(seed)
    a, b = torch.randn(2, 16, 4, generator=generator)
    bad_rank = min(1, place.world_size - 1)
    if step == BAD_STEP and place.rank == bad_rank:
        b[5] = a[5]  # a duplicate row in somebody's data
    return a, b


def spread(model: nn.Module, a: Tensor, b: Tensor) -> Tensor:
    """The loss: the two points of a pair should be at a distance of one."""
    difference = model(a) - model(b)
    distance = difference.square().sum(1).sqrt()
    error = distance - 1
    return error.square().mean()


def average(finite: list[Tensor], bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """A communication hook: average a bucket over all ranks, and note whether it was finite."""
    gradient = bucket.buffer()
    # The last moment at which the gradient is this rank's own. The answer stays on the device:
    # looking at it here would make a GPU wait for each bucket, in the middle of backward.
    finite.append(gradient.isfinite().all())
    gradient.div_(dist.get_world_size())
    work = dist.all_reduce(gradient, async_op=True)
    summed = work.get_future()
    return summed.then(lambda future: future.value()[0])


def first_at_fault(finite: Tensor, place: Place) -> int | None:
    """The lowest-numbered rank whose gradient is not finite; None if there is none.

    One all-reduce of one number, and one look at it. Every rank has the same answer.
    """
    fault = torch.where(finite, place.world_size, place.rank)
    dist.all_reduce(fault, op=dist.ReduceOp.MIN)
    rank = fault.item()
    if rank == place.world_size:
        return None
    return rank


def train(place: Place, steps: int, guarded: bool) -> dict[str, list]:
    """Each step's loss on this rank, and the rank that was found at fault, if `guarded` looks.

    And whether this rank's own gradient and its weights are finite.
    """
    torch.manual_seed(0)
    first = nn.Linear(4, 16)
    last = nn.Linear(16, 2)
    network = nn.Sequential(first, nn.Tanh(), last)
    ddp_model = DistributedDataParallel(network)
    finite: list[Tensor] = []  # for each bucket of a step
    ddp_model.register_comm_hook(finite, average)
    parameters = list(ddp_model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.05)

    trace = {"loss": [], "own": [], "weights": [], "fault": []}
    for step in range(steps):
        finite.clear()
        optimizer.zero_grad()
        a, b = pairs(step, place)
        loss = spread(ddp_model, a, b)
        loss.backward()
        own = torch.stack(finite).all()
        fault = None
        if guarded:
            fault = first_at_fault(own, place)
        if fault is None:
            optimizer.step()
        weights = nn.utils.parameters_to_vector(parameters)
        whole = weights.isfinite().all()
        trace["loss"].append(loss.item())
        trace["own"].append(own.item())
        trace["weights"].append(whole.item())
        trace["fault"].append(fault)
    return trace


def anomaly(place: Place) -> dict[str, str]:
    """The bad batch with anomaly detection: the error, and the line of the forward it accuses."""
    model = nn.Linear(4, 2)
    a, b = pairs(BAD_STEP, place)
    with warnings.catch_warnings(record=True) as caught, torch.autograd.detect_anomaly():
        warnings.simplefilter("always")
        try:
            loss = spread(model, a, b)
            loss.backward()
        except RuntimeError as error:
            warning = caught[-1].message
            return {"said": str(error), "line": str(warning)}
    return {"said": "", "line": ""}


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    # The network is small: the CPU will do everywhere.
    place = here(gpus=0)
    start(place)
    unguarded = train(place, args.steps, guarded=False)
    guarded = train(place, args.steps, guarded=True)
    runs = {"unguarded": unguarded, "guarded": guarded}
    last = unguarded["loss"][-1]
    with_check = guarded["loss"][-1]
    losses = f"last loss {last:.3f}, with the check {with_check:.3f}"
    print(f"rank {place.rank}: {losses}\n", end="")
    accused = anomaly(place)
    report("poison", place, runs=runs, anomaly=accused)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
