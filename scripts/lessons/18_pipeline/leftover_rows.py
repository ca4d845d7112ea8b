"""Batches that the library's schedules do not take: too few micro-batches, or unequal ones.

Meant to fail.

Run:  torchrun --standalone --nproc-per-node=2 leftover_rows.py
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.nn.functional import mse_loss

from devices import here, report

WIDTH = 32


@record
def main() -> None:
    place = here()._replace(device=torch.device("cpu"), backend="gloo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=10))
    torch.manual_seed(0)
    layer = nn.Linear(WIDTH, WIDTH)
    stage = PipelineStage(layer, place.rank, place.world_size, place.device)
    x, y = torch.randn(2, 15, WIDTH)
    inputs = []
    extra = {}
    if place.rank == 0:
        inputs = [x]
    if place.rank == place.world_size - 1:
        extra = {"target": y}

    try:
        Schedule1F1B(stage, n_microbatches=1, loss_fn=mse_loss).step(*inputs, **extra)
    except ValueError as error:
        print(f"rank {place.rank}, one micro-batch: {error}\n", end="", flush=True)
    dist.barrier()

    # 15 rows in 4 micro-batches: 4, 4, 4 and 3.
    try:
        ScheduleGPipe(stage, n_microbatches=4, loss_fn=mse_loss).step(*inputs, **extra)
    except RuntimeError as error:
        # Without the library's frames, so that the report of both ranks fits a screen.
        raise error.with_traceback(None) from None
    report("leftover_rows", place)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
