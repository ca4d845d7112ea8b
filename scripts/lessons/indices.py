"""Which pictures does each rank get? What DistributedSampler hands out, with and without set_epoch.

Run:  torchrun --standalone --nproc-per-node=2 indices.py
"""

from torch.distributed.elastic.multiprocessing.errors import record
from torch.utils.data import DataLoader, DistributedSampler

from devices import here, report


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
    print(f"rank {rank}: {in_order} of ten, {padded} of five\n", end="")
    report(
        "indices",
        place,
        in_order=in_order,
        padded=padded,
        without_set_epoch=without_set_epoch,
        with_set_epoch=with_set_epoch,
        steps=steps,
    )


if __name__ == "__main__":
    main()
