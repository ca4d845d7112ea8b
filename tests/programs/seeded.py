"""A program that sets no seed, in float64: each rank begins with a seed of its own, its number.

It says which ranks save a file.

Run:  torchrun --standalone --nproc-per-node=2 seeded.py FOLDER/first.py
"""

import os
import runpy
import sys

import torch

RANK = os.environ.get("RANK", "0")
write = torch.save


def save(*args, **options) -> None:
    print(f"saved by rank {RANK}\n", end="")
    write(*args, **options)


torch.save = save
torch.set_default_dtype(torch.float64)
torch.manual_seed(int(RANK))
runpy.run_path(sys.argv[1], run_name="__main__")
