"""Which pictures does each rank see? What DistributedSampler hands out, and how the first picture is shifted.

Run:  torchrun --standalone --nproc-per-node=2 indices.py
"""

import torch
from torch.distributed.elastic.multiprocessing.errors import record
from torch.utils.data import DataLoader, DistributedSampler

from devices import here, report
from loader import Pictures, augment


@record
def main() -> None:
    place = rank, _, world_size, _, _ = here()

    in_order = list(DistributedSampler(range(10), world_size, rank, shuffle=False))
    padded = list(DistributedSampler(range(5), world_size, rank, shuffle=False))

    forgotten, remembered = (DistributedSampler(range(10), world_size, rank) for _ in range(2))
    without_set_epoch, with_set_epoch = [], []
    for epoch in range(3):
        without_set_epoch.append(list(forgotten))
        remembered.set_epoch(epoch)
        with_set_epoch.append(list(remembered))

    pictures = range(2049)
    steps = {n: len(DataLoader(pictures, 32, sampler=DistributedSampler(pictures, n, 0))) for n in (1, 2, 9)}

    picture, crops = Pictures(train=True, size=1).x, {}
    for way, seed in [("the same seed", 0), ("seed + rank", rank)]:
        torch.manual_seed(seed)
        crops[way] = [augment(picture)[0].tolist() for _ in range(3)]
    print(f"rank {rank}: {in_order} of ten, {padded} of five\n", end="")
    report(
        "indices",
        place,
        in_order=in_order,
        padded=padded,
        without_set_epoch=without_set_epoch,
        with_set_epoch=with_set_epoch,
        steps=steps,
        crops=crops,
    )


if __name__ == "__main__":
    main()
