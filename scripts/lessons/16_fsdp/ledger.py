"""What does a rank's memory hold, and how much at the worst moment of a step? In seven ways.

At the end it makes the mistakes of `mistaken.py`, so that they need no launch of their own.

Run:  python ledger.py
      torchrun --standalone --nproc-per-node=2 ledger.py --limit 2
"""

from argparse import ArgumentParser
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW

from decoder import WORDS, Decoder
from devices import Place, here, low_precision, report, start
from mistaken import mistakes
from tracker import allocated, tracked
from versus import shard

SHAPE = {"width": 256, "layers": 4, "length": 64}
BATCH = 4  # examples of each rank
WAYS = [
    "DDP",
    "ZeRO-1",
    "FSDP, root only",
    "FSDP",
    "FSDP, checkpoints",
    "FSDP, 16 bits",
    "FSDP, both",
]
ASKED = ["DDP", "FSDP"]  # of the allocator: on a CPU that takes longer than the step


def build(way: str, place: Place) -> nn.Module:
    """The model, kept in this way."""
    torch.manual_seed(0)
    recompute = way.endswith(("checkpoints", "both"))
    model = Decoder(**SHAPE, recompute=recompute).to(place.device)
    if not way.startswith("FSDP"):
        return DistributedDataParallel(model, gradient_as_bucket_view=True)
    mesh = init_device_mesh(place.device.type, (place.world_size,))
    if way == "FSDP, root only":
        return fully_shard(model, mesh=mesh)
    if way.endswith(("16 bits", "both")):
        on_gpu = place.device.type == "cuda"
        capability = torch.cuda.get_device_capability() if on_gpu else None
        short = low_precision(capability)
        policy = MixedPrecisionPolicy(param_dtype=short, reduce_dtype=torch.float32)
        return shard(model, mesh, mp_policy=policy)
    return shard(model, mesh)


def size(tensors: Iterable[Tensor]) -> int:
    """Bytes that this rank keeps of them."""
    local = [each.to_local() if isinstance(each, DTensor) else each for each in tensors]
    return sum(each.nbytes for each in local)


def account(way: str, place: Place) -> dict:
    """Bytes of parameters, gradients and Adam's two averages, and at the worst moment of a step."""
    model = build(way, place)
    if way == "ZeRO-1":
        optimizer = ZeroRedundancyOptimizer(model.parameters(), AdamW, lr=1e-3, fused=True)
        own = optimizer.optim  # for this rank's share of the parameters
    else:
        optimizer = AdamW(model.parameters(), lr=1e-3, fused=True)
        own = optimizer
    words = torch.randint(WORDS, (BATCH, SHAPE["length"] + 1), device=place.device)

    def step() -> int:
        loss = model(words[:, :-1], words[:, 1:])
        loss.backward()
        gradients = size(each.grad for each in model.parameters())
        optimizer.step()
        optimizer.zero_grad()
        return gradients

    gradients = step()
    states: list[Tensor] = []
    for state in own.state.values():
        states.extend(state.values())
    kept = {"parameters": size(model.parameters()), "Adam": size(states)}
    resting = sum(kept.values())
    if not way.startswith("FSDP"):
        step()  # DDP orders its buckets anew in the second step
        resting += gradients  # they live in DDP's buckets, which stay
    kept |= {"gradients": gradients, "peak": tracked(model, own, step, place.device)}
    if way in ASKED or place.device.type == "cuda":
        kept["allocated"] = allocated(step, place.device, resting)
    return kept


@record
def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=2, help="seconds that rank 0 waits in vain")
    args = parser.parse_args()
    place = here()
    if place.backend == "gloo":
        place = place._replace(device=torch.device("cpu"))  # also where ranks share a GPU
    start(place)
    accounts = {}
    for way in WAYS:
        accounts[way] = account(way, place)
        if place.rank == 0:
            peak = accounts[way]["peak"]["Total"] / 1e6
            print(f"{way:19}{peak:5.1f} MB at the worst moment")
    found = mistakes(place, args.limit)
    report("ledger", place, accounts=accounts, shape=SHAPE, batch=BATCH, mistakes=found)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
