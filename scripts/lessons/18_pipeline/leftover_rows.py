"""Batches that the library's schedules do not take: too few micro-batches, or unequal ones.

Meant to fail.

Run:  torchrun --standalone --nproc-per-node=2 leftover_rows.py
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.nn.functional import mse_loss

from devices import here, report, start

WIDTH = 32


@record
def main() -> None:
    place = here(gpus=0)
    torch.set_num_threads(1)
    start(place, seconds=10)
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
        whole_batch = Schedule1F1B(stage, n_microbatches=1, loss_fn=mse_loss)
        whole_batch.step(*inputs, **extra)
    except ValueError as error:
        print(f"rank {place.rank}, one micro-batch: {error}\n", end="", flush=True)
    dist.barrier()

    # 15 rows in 4 micro-batches: 4, 4, 4 and 3.
    try:
        four_parts = ScheduleGPipe(stage, n_microbatches=4, loss_fn=mse_loss)
        four_parts.step(*inputs, **extra)
    except RuntimeError as error:
        # Without the library's frames, so that the report of both ranks fits a screen.
        raise error.with_traceback(None) from None
    report("leftover_rows", place)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
