"""Which pictures does each rank see? What DistributedSampler hands out, how pictures are shifted.

Run:  torchrun --standalone --nproc-per-node=2 indices.py
"""

import torch
from torch.distributed.elastic.multiprocessing.errors import record
from torch.utils.data import DataLoader, DistributedSampler

from devices import Place, here, report
from loader import Pictures, augment


def in_order(pictures: int, place: Place) -> list[int]:
    """The pictures that this rank gets of so many, without shuffling."""
    sampler = DistributedSampler(range(pictures), place.world_size, place.rank, shuffle=False)
    return list(sampler)


def three_epochs(place: Place, set_epoch: bool) -> list[list[int]]:
    """This rank's part of ten shuffled pictures, whether or not the sampler is told the epoch."""
    sampler = DistributedSampler(range(10), place.world_size, place.rank)
    epochs = []
    for epoch in range(3):
        if set_epoch:
            sampler.set_epoch(epoch)
        epochs.append(list(sampler))
    return epochs


def steps_per_epoch(pictures: int, batch_size: int, world_size: int) -> int:
    """Batches of `batch_size` pictures that each rank gets, as DataLoader counts them."""
    dataset = range(pictures)
    sampler = DistributedSampler(dataset, world_size, rank=0)
    loader = DataLoader(dataset, batch_size, sampler=sampler)
    return len(loader)


def crops(picture: torch.Tensor, seed: int) -> list[list]:
    """A picture (1, 3, 32, 32), shifted and mirrored at random three times, as nested lists."""
    torch.manual_seed(seed)
    shifted = [augment(picture) for _ in range(3)]
    return [batch[0].tolist() for batch in shifted]


@record
def main() -> None:
    place = here()

    of_ten = in_order(10, place)
    of_five = in_order(5, place)
    forgotten = three_epochs(place, set_epoch=False)
    remembered = three_epochs(place, set_epoch=True)
    steps = {}
    for world_size in (1, 2, 9):
        steps[world_size] = steps_per_epoch(2049, 32, world_size)

    # The seed decides how a picture is shifted: one seed for all ranks, or one for each.
    picture = Pictures(train=True, size=1).x
    same_seed = crops(picture, seed=0)
    own_seed = crops(picture, seed=place.rank)
    shifted = {"the same seed": same_seed, "seed + rank": own_seed}

    print(f"rank {place.rank}: {of_ten} of ten, {of_five} of five\n", end="")
    report(
        "indices",
        place,
        in_order=of_ten,
        padded=of_five,
        without_set_epoch=forgotten,
        with_set_epoch=remembered,
        steps=steps,
        crops=shifted,
    )


if __name__ == "__main__":
    main()
