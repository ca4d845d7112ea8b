"""Run several programs one after another on the same ranks.

Starting Python and torch is most of a short launch.

Run:  torchrun --standalone --nproc-per-node=2 several.py "equal --cases none" "single --epochs 1"

Program 0 leaves its results in `0.json` and `0.rankN.json`, program 1 in `1.json` and
`1.rankN.json`, and so on.
"""

import runpy
import sys
from functools import partial
from pathlib import Path

import torch.distributed as dist

store, rank, world_size = next(dist.rendezvous("env://"))
init_process_group = dist.init_process_group
ending = "json" if rank == 0 else f"rank{rank}.json"
for number, line in enumerate(sys.argv[1:]):
    program, *sys.argv[1:] = line.split()

    # torchrun's store still holds the addresses of the program before; each finds the others in a
    # corner of its own.
    corner = dist.PrefixStore(str(number), store)
    meet = partial(init_process_group, store=corner, rank=rank, world_size=world_size)
    dist.init_process_group = meet
    runpy.run_module(program, run_name="__main__")
    Path(f"{program}.{ending}").rename(f"{number}.{ending}")

    # The next program may fail, and end every rank: nobody begins it before all have written their
    # results of this one.
    ended = store.add(f"ended {number}", 1)
    if ended == world_size:
        store.set(f"all ended {number}", "")
    store.wait([f"all ended {number}"])
