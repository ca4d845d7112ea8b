"""stopwatch.py's `slowest`, once with the larger number on rank 0, once with it on rank 1.

Run:  torchrun --standalone --nproc-per-node=2 slowest.py
"""

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start
from stopwatch import slowest


@record
def main() -> None:
    place = here()
    start(place)
    falling = slowest(0.3 - 0.1 * place.rank, place.device)
    rising = slowest(0.1 + 0.1 * place.rank, place.device)
    report("slowest", place, falling=falling, rising=rising)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
