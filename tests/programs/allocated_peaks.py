"""What the allocator gives out at the worst moment of a step, with DDP and with ZeRO-1.

For several sizes of the model, as width,layers,batch,length. It takes real ranks: with ZeRO-1 each
of them keeps Adam's averages for whole parameters of its own.

Run:  torchrun --standalone --nproc-per-node=2 allocated_peaks.py 128,3,4,64 64,4,6,64
"""

import sys

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

import ledger
from devices import here, report, start


@record
def main() -> None:
    place = here()._replace(device=torch.device("cpu"), backend="gloo")
    start(place)
    ledger.ASKED = ["DDP", "ZeRO-1"]
    peaks = {}
    for shape in sys.argv[1:]:
        width, layers, ledger.BATCH, length = map(int, shape.split(","))
        ledger.SHAPE = {"width": width, "layers": layers, "length": length}
        peaks[shape] = {way: ledger.account(way, place)["allocated"] for way in ledger.ASKED}
    report("allocated_peaks", place, peaks=peaks)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
