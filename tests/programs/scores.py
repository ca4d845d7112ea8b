"""ddp.py's `evaluate`, on ranks whose BatchNorm statistics differ beforehand.

Run:  torchrun --standalone --nproc-per-node=2 scores.py 1001     # in a folder with `small.pt` and `data`
"""

import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from ddp import evaluate
from devices import here, report
from loader import Pictures
from model import ResNet


@record
def main() -> None:
    place = here()
    dist.init_process_group(place.backend, timeout=timedelta(seconds=60))

    model = ResNet((8, 16, 32)).to(place.device)
    model.load_state_dict(torch.load("small.pt", weights_only=True))
    buffers = dict(model.named_buffers())
    for buffer in buffers.values():
        buffer += 3 * place.rank  # counters of batches, means and variances: wrong on every rank except 0
    before = {name: buffer.flatten().tolist() for name, buffer in buffers.items()}
    scores = evaluate(model, Pictures(False, int(sys.argv[1])), place)
    after = {name: buffer.flatten().tolist() for name, buffer in buffers.items()}

    report("scores", place, **scores, before=before, after=after)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
