"""Exercise: every rank waves, and only the last one should, however many there are.

Run:  torchrun --standalone --nproc-per-node=3 waves.py
"""

from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


def waves(rank: int, world_size: int) -> bool:
    """Whether this rank waves."""
    # BEGIN SOLUTION
    return rank == world_size - 1
    # STUB return True
    # END SOLUTION


@record
def main() -> None:
    place = here()
    if waves(place.rank, place.world_size):
        print(f"rank {place.rank} of {place.world_size} waves\n", end="")

    # The check wants to know who would wave if there were one rank, two, … five.
    by_size = []
    for size in range(1, 6):
        by_size.append([waves(rank, size) for rank in range(size)])
    report("waves", place, by_size=by_size)


if __name__ == "__main__":
    main()
