"""Five steps of a small GPT: FSDP by hand, FSDP, DDP, and one process. Are they equal?

In float64. What does each of them send in a step?

Run:  python versus.py
      torchrun --standalone --nproc-per-node=2 versus.py
"""

from collections.abc import Iterable, Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from counter import Collectives
from decoder import WORDS, Decoder
from devices import Place, here, report, start
from shards import Sharded, Whole, shard_by_hand
from yardstick import apart

STEPS = 5
BATCH, LENGTH = 12, 32  # examples of all ranks together; words of one


def make(place: Place) -> Decoder:
    """The same weights on every rank."""
    torch.manual_seed(0)
    model = Decoder(width=64, layers=2, length=LENGTH)
    return model.double().to(place.device)


# region fully_shard
def shard(model: Decoder, mesh: DeviceMesh, **options) -> Decoder:
    """FSDP: each layer is a unit, which is gathered and freed on its own; so is the rest."""
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


# endregion


def batches(place: Place, ranks: int) -> Iterator[tuple[Tensor, Tensor]]:
    """For each step, this rank's rows of the batch."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        words = torch.randint(WORDS, (BATCH, LENGTH + 1), generator=generator)
        own = words.chunk(ranks)[place.rank % ranks].to(place.device)
        yield own[:, :-1], own[:, 1:]


def train(model: nn.Module, place: Place, ranks: int) -> Collectives:
    """Train with AdamW; what the last step sent."""
    # A large eps: otherwise Adam hides it when all gradients are twice too large.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-3)
    for x, y in batches(place, ranks):
        optimizer.zero_grad()
        with Collectives() as sent:
            loss = model(x, y)
            loss.backward()
        optimizer.step()
    return sent


def flat(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([each.detach().flatten() for each in tensors])


def joined(layer: Sharded) -> Tensor:
    """The parameters of a layer by hand, without what made its parts equal."""
    length = sum(shape.numel() for shape in layer.shapes.values())
    row = Whole.apply(layer.part)
    return row[:length]


def whole(model: nn.Module) -> Tensor:
    """All parameters in a row, however the ranks keep them. Every rank has to call this."""
    by_hand = [each for each in model.modules() if isinstance(each, Sharded)]
    if by_hand:
        return flat(joined(layer) for layer in by_hand)
    tensors = []
    for parameter in model.parameters():
        full = parameter.full_tensor() if isinstance(parameter, DTensor) else parameter
        tensors.append(full)
    return flat(tensors)


def kept(model: nn.Module) -> int:
    """How many numbers of the parameters this rank stores."""
    numbers = 0
    for parameter in model.parameters():
        local = parameter.to_local() if isinstance(parameter, DTensor) else parameter
        numbers += local.numel()
    return numbers


@record
def main() -> None:
    place = here()
    if place.backend == "gloo":
        place = place._replace(device=torch.device("cpu"))  # also where ranks share a GPU
    start(place)
    mesh = init_device_mesh(place.device.type, (place.world_size,))

    alone = make(place)
    untrained = whole(alone)
    train(alone, place, ranks=1)
    moved = whole(alone) - untrained  # small beside the weights, so this is what we compare
    ways = {
        "by hand": shard_by_hand(make(place)),
        "fully_shard": shard(make(place), mesh),
        "DDP": DistributedDataParallel(make(place)),
    }
    runs = {}
    for way, model in ways.items():
        sent = train(model, place, place.world_size)
        relative = apart(whole(model) - untrained, moved, wrong=0 * moved)
        numbers = kept(model)
        runs[way] = {"kept": numbers, "difference": relative, "sent": sent.totals()}
        if place.rank == 0:
            print(f"{way:12}keeps {numbers:,} numbers; off by {relative:.1e}")
    root = 0
    for name, parameter in alone.named_parameters():
        if "layers" not in name:
            root += parameter.numel()
    report("versus", place, runs=runs, numbers=len(moved), root=root, steps=STEPS)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
