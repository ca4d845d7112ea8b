"""Whose numbers does `distribute_tensor` take, what does it send, and what is refused?

Run:  python source.py
      torchrun --standalone --nproc-per-node=2 source.py
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.tensor import Placement, Replicate, Shard, distribute_tensor

from counter import Collectives
from devices import here, report, start


def deal(placement: Placement, source: int | None, mesh: DeviceMesh) -> dict:
    """Each rank brings numbers of its own: what does it hold afterwards, and what was sent?"""
    own = torch.arange(4) + 100 * dist.get_rank()
    brought = own.tolist()
    with Collectives() as seen:
        dealt = distribute_tensor(own, mesh, [placement], src_data_rank=source)
    local = dealt.to_local()
    return {
        "brought": brought,
        "holds": local.tolist(),
        "own": own.tolist(),
        "calls": [call.name for call in seen.calls],
    }


def refusal(call: Callable[[], object]) -> str:
    """What torch says to `call`."""
    try:
        call()
    except (RuntimeError, KeyError) as error:
        return str(error)
    return "nothing"


@record
def main() -> None:
    # gloo and the CPU everywhere: what matters is who talks to whom.
    place = here(gpus=0)
    start(place)
    mesh = init_device_mesh("cpu", (place.world_size,))

    dealt = {
        "Replicate()": deal(Replicate(), 0, mesh),
        "Shard(0)": deal(Shard(0), 0, mesh),
        "Shard(0), None": deal(Shard(0), None, mesh),
    }
    if place.rank == place.world_size - 1:
        for way, outcome in dealt.items():
            print(f"{way:15} {outcome}")

    # Four rows, and rows that cannot be dealt out equally: the pieces, and what a mean sends.
    uneven = {}
    for rows in (4, 5, 1):
        whole = torch.arange(float(rows))
        pieces = distribute_tensor(whole, mesh, [Shard(0)])
        with Collectives() as seen:
            pieces.mean()
        calls = [call.name for call in seen.calls]
        own = pieces.to_local()
        uneven[str(rows)] = {"piece": own.tolist(), "mean": calls}

    plain = torch.ones(4)
    spread = distribute_tensor(plain, mesh, [Replicate()])
    grid = init_device_mesh("cpu", (1, place.world_size), mesh_dim_names=("dp", "tp"))
    too_large = (place.world_size, 2)
    refused = {
        "mixed": refusal(lambda: spread + plain),
        "name": refusal(lambda: grid["ddp"]),
        "size": refusal(lambda: init_device_mesh("cpu", too_large)),
    }
    report("source", place, dealt=dealt, uneven=uneven, refused=refused)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
