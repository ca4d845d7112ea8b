"""Run convert.py among four imagined ranks: as rank 0, then as rank 2, on a second machine.

Run:  python pretend.py

Nobody else is there: this process only pretends, in a group of its own.
"""

import os
import sys
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start

RANKS = (0, 2)  # the first of each machine
WORLD_SIZE = 4
PRETENDED = {  # what torchrun would say to both
    "LOCAL_RANK": "0",
    "WORLD_SIZE": str(WORLD_SIZE),
    "LOCAL_WORLD_SIZE": "2",
    "TORCHELASTIC_RUN_ID": "pretend",
}


def run_convert(rank: int) -> dict[str, object]:
    """What convert.py would report as this rank, or the error that stopped it."""
    reported = {"batches": [], "error": ""}
    with (
        mock.patch.dict(os.environ, PRETENDED | {"RANK": str(rank)}),
        mock.patch.object(dist, "get_rank", lambda group=None: rank),
        mock.patch.object(dist, "get_world_size", lambda group=None: WORLD_SIZE),
        mock.patch.object(dist, "init_process_group"),
        mock.patch.object(dist, "destroy_process_group"),
        mock.patch.object(torch.cuda, "device_count", lambda: 0),
    ):
        sys.modules.pop("convert", None)  # it may ask for its rank as soon as it is imported
        import convert
        import scaffold

        scaffold.write = mock.Mock()  # leave the real convert.pt as it is
        scaffold.saved.clear()
        convert.report = lambda name, place, **numbers: reported.update(numbers)
        try:
            convert.main()
        except Exception as error:
            reported["error"] = f"{type(error).__name__}: {error}"
        reported["saved"] = list(scaffold.saved)
    return reported


@record
def main() -> None:
    place = here(gpus=0)
    start(place)
    reported = {}
    for rank in RANKS:
        print(f"As rank {rank} of {WORLD_SIZE}, local rank 0:")
        of_rank = run_convert(rank)
        sizes = [len(batch) for batch in of_rank["batches"]]
        print(f"rows in each step {sizes}; files saved: {len(of_rank['saved'])}")
        if of_rank["error"]:
            print(f"convert.py stopped: {of_rank['error']}")
        reported[rank] = of_rank

    numbers = {"rows": reported[2]["batches"], "rows of rank 0": reported[0]["batches"]}
    report("pretend", place, saved=reported[2]["saved"], error=reported[2]["error"], **numbers)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
