"""Run convert.py as rank 2 of four, the first on the second of two machines.

Run:  python pretend.py

Nobody else is there: this process only pretends, in a group of its own.
"""

import os
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start

RANK = 2
WORLD_SIZE = 4
PRETENDED = {  # what torchrun would say there
    "RANK": str(RANK),
    "LOCAL_RANK": "0",
    "WORLD_SIZE": str(WORLD_SIZE),
    "LOCAL_WORLD_SIZE": "2",
    "TORCHELASTIC_RUN_ID": "pretend",
}


def run_convert() -> dict[str, object]:
    """What convert.py would report there, or the error that stopped it."""
    reported = {"batches": [], "saved": [], "error": ""}
    with (
        mock.patch.dict(os.environ, PRETENDED),
        mock.patch.object(dist, "get_rank", lambda group=None: RANK),
        mock.patch.object(dist, "get_world_size", lambda group=None: WORLD_SIZE),
        mock.patch.object(dist, "init_process_group"),
        mock.patch.object(dist, "destroy_process_group"),
        mock.patch.object(torch.cuda, "device_count", lambda: 0),
    ):
        import convert  # only now: it may ask for its rank as soon as it is imported
        import scaffold

        scaffold.write = mock.Mock()  # leave the real convert.pt as it is
        convert.report = lambda name, place, **numbers: reported.update(numbers)
        try:
            convert.main()
        except Exception as error:
            reported["error"] = f"{type(error).__name__}: {error}"
    return reported


@record
def main() -> None:
    place = here(gpus=0)
    start(place)
    reported = run_convert()
    shares = [len(batch) for batch in reported["batches"]]
    print(f"rank {RANK} of {WORLD_SIZE}, local rank 0: rows in each step {shares}")
    print(f"files saved: {len(reported['saved'])}", reported["error"])
    report("pretend", place, shares=shares, saved=reported["saved"])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
