"""Five faults that say nothing. Each is committed beside its remedy, and what comes of it is counted.

Run:  torchrun --standalone --nproc-per-node=2 quiet.py
"""

import argparse
import os
import zipfile
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler, random_split

from devices import Place, here, report


def everyone(mine: object) -> list:
    """What each rank holds, in the order of the ranks."""
    dist.all_gather_object(found := [None] * dist.get_world_size(), mine)
    return found


def seeds(place: Place) -> dict:
    """Each rank seeds with its own number: the weights under DDP, a split made by the rank, a sampler's shares."""
    torch.manual_seed(place.rank)
    model = nn.Linear(8, 1)
    found = {"before DDP": everyone(model.weight.sum().item())}
    DistributedDataParallel(model)
    found["in DDP"] = everyone(model.weight.sum().item())
    for kind, seed in {"own seed": place.rank, "one seed": 0}.items():
        train, test = random_split(range(100), [80, 20], torch.Generator().manual_seed(seed))
        trained = set().union(*everyone(list(train)))
        shared = everyone(list(DistributedSampler(range(100), shuffle=True, seed=seed)))
        found[kind] = {
            "tested on training data": len(trained & set().union(*everyone(list(test)))),
            "never seen in an epoch": 100 - len(set().union(*shared)),
        }
    return found


def epochs(told: bool) -> list[list[int]]:
    """The orders in which this rank sees eight samples in three epochs, of which its sampler is told or not."""
    sampler, orders = DistributedSampler(range(16), shuffle=True), []
    for epoch in range(3):
        if told:
            sampler.set_epoch(epoch)
        orders.append(list(sampler))
    return orders


def saves(place: Place, way: str, times: int) -> list[str]:
    """All ranks save to one name at once, or rank 0 alone. Whose file is it then, or is it damaged?"""
    state, path, found = {"rank": place.rank, "numbers": torch.ones((place.rank + 1) * 2**20)}, Path("saved.pt"), []
    for _ in range(times):
        dist.barrier()
        if way == "all at once" or place.rank == 0:
            torch.save(state, path)
        dist.barrier()
        try:
            with zipfile.ZipFile(path) as archive:
                damaged = archive.testzip()  # it compares the checksums, which torch.load does not (lesson 11)
            found.append("damaged" if damaged else f"rank {torch.load(path, weights_only=True)['rank']}")
        except Exception:  # no zip file any more
            found.append("damaged")
    return found


def edited(way: str) -> float:
    """The gradient of w² at w = 3, where `.data`, at which autograd does not look, is changed before backward."""
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
    times = parser.parse_args().times
    early = dist.get_rank() if dist.is_initialized() else 0  # a common line, and nothing is initialized yet
    place = here()
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    guard = {"before init": early, "after init": dist.get_rank(), "RANK": int(os.environ["RANK"])}
    told = {"guard": everyone(guard), "seeds": seeds(place), "edit": {way: edited(way) for way in ("no", "yes")}}
    told["epochs"] = {"forgotten": epochs(False), "set_epoch": epochs(True)}
    told["saves"] = {way: saves(place, way, times) for way in ("all at once", "rank 0 alone")}
    report("quiet", place, told=told)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
