"""Exercise: every rank waves, and only the last one should.

Run:  torchrun --standalone --nproc-per-node=3 waves.py
"""

from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


@record
def main() -> None:
    place = here()

    # BEGIN SOLUTION
    wave = place.rank == place.world_size - 1
    # STUB wave = True
    # END SOLUTION

    if wave:
        print(f"rank {place.rank} of {place.world_size} waves\n", end="")
    report("waves", place, wave=wave)


if __name__ == "__main__":
    main()
