"""Random changes of pictures: which numbers do the loader workers of all ranks draw?

Run:  torchrun --standalone --nproc-per-node=2 augment.py
"""

import random
from collections.abc import Callable

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.utils.data import DataLoader, Dataset, get_worker_info

from devices import Place, here, report, start

SEED = 0
PICTURES = 8  # of each rank in an epoch
EPOCHS = 2
WORKERS = 2
LARGEST = 2**30  # two draws are hardly ever equal by chance


class Draws(Dataset):
    """In place of changed pictures: the numbers by which they would be changed."""

    def __init__(self):
        self.own = np.random.default_rng(SEED)  # each worker will have a copy

    def __len__(self) -> int:
        return PICTURES

    def __getitem__(self, picture: int) -> dict[str, int]:
        return {
            "torch": int(torch.randint(LARGEST, ())),
            "random": random.randrange(LARGEST),
            "numpy": np.random.randint(LARGEST),
            "own": int(self.own.integers(LARGEST)),
        }


def reseed(number: int) -> None:
    """A worker_init_fn: a generator for this worker alone, from the seed that torch gave it."""
    worker = get_worker_info()
    worker.dataset.own = np.random.default_rng(worker.seed)


def draws(seed: int, init: Callable | None = None) -> dict[str, list[int]]:
    """What the workers of this rank draw in all epochs, by generator."""
    # Each epoch's workers get their seeds from this generator, and from their numbers.
    generator = torch.Generator().manual_seed(seed)
    settings = {"num_workers": WORKERS, "generator": generator, "worker_init_fn": init}
    loader = DataLoader(Draws(), batch_size=2, **settings)
    drawn = {"torch": [], "random": [], "numpy": [], "own": []}
    for _ in range(EPOCHS):
        for numbers in loader:
            for name, batch in numbers.items():
                drawn[name] += batch.tolist()
    return drawn


def different(drawn: dict[str, list[int]], place: Place) -> dict[str, int]:
    """How many different numbers the workers of all ranks have drawn, by generator."""
    of_ranks = [None] * place.world_size
    dist.all_gather_object(of_ranks, drawn)
    return {name: len({number for own in of_ranks for number in own[name]}) for name in drawn}


@record
def main() -> None:
    place = here(gpus=0)
    # Workers are forked, and a group has threads: so all loaders are done before there is a group.
    drawn = {
        "one seed": draws(SEED),
        "a seed for each rank": draws(SEED + place.rank),
        "and worker_init_fn": draws(SEED + place.rank, init=reseed),
    }
    start(place)
    ways = {way: different(numbers, place) for way, numbers in drawn.items()}
    report("augment", place, ways=ways, pictures=place.world_size * PICTURES * EPOCHS)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
