"""Run first.py three times on the same ranks, as A, B and C, each time without one of its places.

Run:  torchrun --standalone --nproc-per-node=2 without.py
"""

from pathlib import Path
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start

MISSING = {"A": 5, "B": 3, "C": 4}
CHANGES = {  # for each place what first.py says there, and what stands there without it
    3: (", sampler=sampler", ", shuffle=True"),  # as on one GPU
    4: ("DistributedDataParallel(model)", "model"),
    5: ("sampler.set_epoch(epoch)", "pass"),
}


def run(text: str) -> None:
    """Run a program on a group that there is already, and that goes on; it saves nothing."""
    with (
        mock.patch.object(dist, "init_process_group"),
        mock.patch.object(dist, "destroy_process_group"),
        mock.patch.object(torch, "save"),
    ):
        exec(compile(text, "first.py", "exec"), {})


@record
def main() -> None:
    place = here()
    start(place)
    text = Path("first.py").read_text()
    for name, number in MISSING.items():
        line, without = CHANGES[number]
        if text.count(line) != 1:
            raise ValueError(f"first.py does not say {line} once: write it again from its cell")
        text_without = text.replace(line, without)
        run(text_without.replace('print(f"rank', f'print(f"{name}: rank'))
        dist.barrier()
    report("without", place, missing=MISSING)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
