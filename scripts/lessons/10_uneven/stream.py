"""A stream of rows: each loader worker of each rank reads all of it, until the rows are divided.

Run:  torchrun --standalone --nproc-per-node=2 stream.py
"""

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from devices import Place, here, report, start

ROWS = 25
WORKERS = 2


class Stream(IterableDataset):
    """Rows that can only be read from the beginning, as from a file or a queue."""

    def __init__(self, place: Place, divided: bool):
        self.place = place
        self.divided = divided

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()  # of this rank's loader
        readers = self.place.world_size * worker.num_workers
        me = self.place.rank * worker.num_workers + worker.id
        for row in range(ROWS):
            if not self.divided or row % readers == me:
                yield row


@record
def main() -> None:
    place = here(gpus=0)
    start(place)
    told = {}
    for divided in (False, True):
        loader = DataLoader(Stream(place, divided), batch_size=4, num_workers=WORKERS)
        seen = torch.zeros(ROWS)
        for rows in loader:
            seen[rows] += 1
        own = int(seen.sum())
        dist.all_reduce(seen)  # over all ranks
        told["divided" if divided else "as it is"] = {"own": own, "seen": seen.tolist()}
    report("stream", place, ways=told, workers=WORKERS)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
