"""ddp.py's `evaluate`, on ranks whose BatchNorm statistics differ beforehand.

Run, in a folder with `small.pt` and `data`, on 1001 test pictures:
      torchrun --standalone --nproc-per-node=2 scores.py 1001
"""

import sys

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from ddp import evaluate
from devices import here, report, start
from loader import Pictures
from model import ResNet


def values(buffers: dict[str, torch.Tensor]) -> dict[str, list]:
    return {name: buffer.flatten().tolist() for name, buffer in buffers.items()}


@record
def main() -> None:
    place = here()
    start(place)

    model = ResNet((8, 16, 32)).to(place.device)
    model.load_state_dict(torch.load("small.pt", weights_only=True))
    buffers = dict(model.named_buffers())
    for buffer in buffers.values():
        buffer += 3 * place.rank  # counters, means and variances: wrong on every rank except 0

    before = values(buffers)
    scores = evaluate(model, Pictures(False, int(sys.argv[1])), place)
    report("scores", place, **scores, before=before, after=values(buffers))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
