"""A clock that all ranks share: seconds of training, and the same last step on every rank.

Run:  python clocked.py
      torchrun --standalone --nproc-per-node=2 clocked.py
"""

import time

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report, start


class Clock:
    """Seconds of training. Rank 0 looks at its watch, so all ranks stop at the same step."""

    def __init__(self, seconds: float, place: Place, began: float | None = None):
        self.seconds = seconds
        self.device = place.device
        if began is None:
            began = time.perf_counter()
        self.began = began
        self.every = 1 if place.device.type == "cpu" else 8  # on a GPU a look makes Python wait
        self.steps = 0
        self.passed = 0.0

    def share(self) -> float:
        """Ahead of a step: the share of the seconds that is over, the same on every rank."""
        if self.steps % self.every == 0:
            torch.get_device_module(self.device).synchronize()  # what is queued counts, too
            passed = time.perf_counter() - self.began
            told = torch.tensor(passed, dtype=torch.float64, device=self.device)
            dist.broadcast(told, src=0)
            self.passed = told.item()
        self.steps += 1
        return self.passed / self.seconds


@record
def main() -> None:
    place = here()
    start(place)
    clock = Clock(0.05, place)
    while clock.share() < 1:
        time.sleep(0.001 * (1 + place.rank))  # ranks of different speed
    print(f"rank {place.rank}: {clock.steps} looks at the clock\n", end="")
    report("clocked", place, looks=clock.steps)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
