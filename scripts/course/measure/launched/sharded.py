"""FSDP beside DDP: a step of a small GPT, and the bytes that a rank sends in it. For ways.py.

Same network, batch and optimizer; both as they are by default.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from counter import Collectives
from decoder import WORDS, Decoder
from devices import Place, here
from ownbackends import on_cpu
from versus import shard

ROWS, LENGTH = 4, 64  # examples of a rank, words of one


class Step:
    """One training step; `sent`: bytes that this rank sends in it, in a ring of all ranks."""

    def __init__(self, model: nn.Module, x: Tensor, place: Place):
        self.model = model
        self.x = x
        self.optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        self()  # the first step of all prepares
        with Collectives() as seen:
            self()
        totals = seen.totals()
        share = (place.world_size - 1) / place.world_size
        once = sum(totals.get(name, (0, 0))[1] for name in ("all_gather", "reduce_scatter"))
        twice = totals.get("all_reduce", (0, 0))[1]  # a reduce-scatter, and then an all-gather
        self.sent = share * (once + 2 * twice)

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        self.model(self.x, self.x).backward()
        self.optimizer.step()


def fsdp(*_) -> dict[str, Callable[[], Step]]:
    place = on_cpu(here(), "gloo")
    mesh = init_device_mesh("cpu", (place.world_size,))

    def make(wrap: Callable[[Decoder], nn.Module]) -> Step:
        torch.manual_seed(0)
        model = Decoder(width=256, layers=4, length=LENGTH)
        torch.manual_seed(1 + place.rank)
        return Step(wrap(model), torch.randint(WORDS, (ROWS, LENGTH)), place)

    def ddp() -> Step:
        return make(DistributedDataParallel)

    def sharded() -> Step:
        return make(lambda model: shard(model, mesh))

    return {"DDP": ddp, "DDP again": ddp, "FSDP": sharded}
