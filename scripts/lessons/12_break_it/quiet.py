"""Five faults that say nothing, most of them beside their remedy. The harm is counted.

Run:  torchrun --standalone --nproc-per-node=2 quiet.py
"""

import argparse
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler, random_split

from devices import Place, here, report, start


def everyone(mine: object) -> list:
    """What each rank holds, in the order of the ranks."""
    of_ranks = [None] * dist.get_world_size()
    dist.all_gather_object(of_ranks, mine)
    return of_ranks


def of_any(mine: Iterable[int]) -> set[int]:
    """The numbers that at least one rank holds."""
    numbers = set()
    for of_rank in everyone(list(mine)):
        numbers.update(of_rank)
    return numbers


def weights(seed: int) -> dict[str, list[float]]:
    """The sum of the weights on each rank that seeds with `seed`, before DDP and in it."""
    torch.manual_seed(seed)
    model = nn.Linear(8, 1)
    before = model.weight.sum().item()
    sums = {"before DDP": everyone(before)}
    DistributedDataParallel(model)
    after = model.weight.sum().item()
    sums["in DDP"] = everyone(after)
    return sums


def shares(seed: int) -> dict[str, int]:
    """Of 100 pictures, what goes wrong in a split made by each rank, and in a sampler's shares."""
    generator = torch.Generator().manual_seed(seed)
    train, test = random_split(range(100), [80, 20], generator)
    trained = of_any(train)
    tested = of_any(test)
    sampler = DistributedSampler(range(100), shuffle=True, seed=seed)
    seen = of_any(sampler)
    return {
        "tested on training data": len(trained & tested),
        "never seen in an epoch": 100 - len(seen),
    }


def epochs(told: bool) -> list[list[int]]:
    """The orders in which this rank sees eight samples in three epochs.

    Its sampler is told of each epoch, or not.
    """
    sampler = DistributedSampler(range(16), shuffle=True)
    orders = []
    for epoch in range(3):
        if told:
            sampler.set_epoch(epoch)
        orders.append(list(sampler))
    return orders


def owner(path: Path) -> str:
    """The rank that saved a file; or that it is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()  # compares the checksums, which torch.load does not
        if damaged:
            return "damaged"
        state = torch.load(path, weights_only=True)
        return f"rank {state['rank']}"
    except Exception:  # no zip file any more
        return "damaged"


def saves(place: Place, way: str, times: int) -> list[str]:
    """All ranks save to one name at once, or rank 0 alone. Whose file is it then?"""
    numbers = torch.ones((place.rank + 1) * 2**20)
    state = {"rank": place.rank, "numbers": numbers}
    path = Path("saved.pt")
    owners = []
    for _ in range(times):
        dist.barrier()
        if way == "all at once" or place.rank == 0:
            torch.save(state, path)
        dist.barrier()
        owners.append(owner(path))
    return owners


def edited(way: str) -> float:
    """The gradient of w² at w = 3, where `.data` is changed before backward, if the way is "yes".

    Autograd does not look at `.data`.
    """
    w = torch.tensor(3.0, requires_grad=True)
    loss = w * w
    if way == "yes":
        w.data.fill_(5.0)
    loss.backward()
    return w.grad.item()


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=10, help="that all ranks save at once")
    args = parser.parse_args()
    # A common line, and nothing is initialized yet.
    early = dist.get_rank() if dist.is_initialized() else 0
    # gloo on the CPU everywhere: these faults are the same with and without GPUs.
    place = here(gpus=0)
    start(place)
    variable = int(os.environ["RANK"])
    guard = {"before init": early, "after init": dist.get_rank(), "RANK": variable}
    harm = {"guard": everyone(guard), "seeds": weights(place.rank)}
    harm["seeds"]["own seed"] = shares(place.rank)
    harm["seeds"]["one seed"] = shares(0)
    harm["edit"] = {way: edited(way) for way in ("no", "yes")}
    harm["epochs"] = {"forgotten": epochs(told=False), "set_epoch": epochs(told=True)}
    harm["saves"] = {}
    for way in ("all at once", "rank 0 alone"):
        harm["saves"][way] = saves(place, way, args.times)
    report("quiet", place, told=harm)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
