"""Hybrid sharding: a model cut over the ranks of a row, with a copy in every row.

Run:  python hsdp.py
      torchrun --standalone --nproc-per-node=2 hsdp.py     # one row of two
      torchrun --standalone --nproc-per-node=4 hsdp.py     # two rows of two
"""

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start
from versus import STEPS, kept, make, shard, train, whole
from yardstick import apart


@record
def main() -> None:
    # gloo and the CPU everywhere: what matters is who talks to whom.
    place = here(gpus=0)
    start(place)
    columns = min(2, place.world_size)
    rows = place.world_size // columns

    alone = make(place)  # as one process would train it, on the whole batch
    untrained = whole(alone)
    train(alone, place, ranks=1)
    moved = whole(alone) - untrained

    mesh = init_device_mesh("cpu", (rows, columns), mesh_dim_names=("replicate", "shard"))
    model = shard(make(place), mesh)
    sent = train(model, place, place.world_size)

    gap = apart(whole(model) - untrained, moved, wrong=0 * moved)
    numbers = kept(model)
    if place.rank == 0:
        for call in sent.calls:
            print(call)
    report(
        "hsdp",
        place,
        calls=sent.calls,
        gap=gap,
        kept=numbers,
        numbers=len(moved),
        steps=STEPS,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
