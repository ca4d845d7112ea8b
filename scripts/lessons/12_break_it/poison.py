"""One pair of equal rows on one rank: its gradient is NaN, and the average carries it to all ranks.

Run:  torchrun --standalone --nproc-per-node=3 poison.py
"""

import argparse
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report


def pairs(step: int, place: Place) -> tuple[Tensor, Tensor]:
    """Sixteen pairs of points with four coordinates, different on each rank and in each step."""
    generator = torch.Generator().manual_seed(1000 * step + place.rank)
    a, b = torch.randn(2, 16, 4, generator=generator)
    if step == 12 and place.rank == min(1, place.world_size - 1):
        b[5] = a[5]  # a duplicate row in somebody's data
    return a, b


def spread(model: nn.Module, a: Tensor, b: Tensor) -> Tensor:
    """The loss: points of a pair shall come to lie at a distance of one."""
    distance = (model(a) - model(b)).square().sum(1).sqrt()
    return (distance - 1).square().mean()


def train(place: Place, steps: int, guarded: bool) -> dict[str, list]:
    """Per step: this rank's loss, whether its own gradient and its weights are finite, and who was found at fault."""
    torch.manual_seed(0)
    ddp_model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2)))
    own = []

    def hook(_: object, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        own.append(bucket.buffer().isfinite().all().item())  # the last moment at which it is this rank's own
        gradient = bucket.buffer().div_(place.world_size)
        return dist.all_reduce(gradient, async_op=True).get_future().then(lambda future: future.value()[0])

    ddp_model.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.05)
    found = {"loss": [], "own": [], "weights": [], "fault": []}
    for step in range(steps):
        own.clear()
        optimizer.zero_grad()
        loss = spread(ddp_model, *pairs(step, place))
        loss.backward()
        fault = torch.tensor(place.world_size if all(own) else place.rank)
        if guarded:
            dist.all_reduce(fault, op=dist.ReduceOp.MIN)  # one number: the first rank at fault, or none
        if not guarded or fault == place.world_size:
            optimizer.step()
        found["loss"].append(loss.item())
        found["own"].append(all(own))
        found["weights"].append(all(p.isfinite().all().item() for p in ddp_model.parameters()))
        found["fault"].append(fault.item() if guarded and fault < place.world_size else None)
    return found


def anomaly(place: Place) -> dict[str, str]:
    """The same batch with anomaly detection: the error, and the line of the forward pass that it accuses."""
    model = nn.Linear(4, 2)
    with warnings.catch_warnings(record=True) as caught, torch.autograd.detect_anomaly(check_nan=True):
        warnings.simplefilter("always")
        try:
            spread(model, *pairs(12, place)).backward()
        except RuntimeError as error:
            return {"said": str(error), "line": str(caught[-1].message)}
    return {"said": "", "line": ""}


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30)
    args, place = parser.parse_args(), here()
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))  # a small network: the CPU will do
    runs = {"unguarded": train(place, args.steps, False), "guarded": train(place, args.steps, True)}
    ends = {name: run["loss"][-1] for name, run in runs.items()}
    print(f"rank {place.rank}: last loss {ends['unguarded']:.3f}, with the check {ends['guarded']:.3f}\n", end="")
    report("poison", place, runs=runs, anomaly=anomaly(place))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
