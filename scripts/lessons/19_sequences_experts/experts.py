"""Experts on several ranks against all of them in one process, and which gradients to add up.

Run:  python experts.py
      torchrun --standalone --nproc-per-node=2 experts.py
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from counter import Collectives
from devices import Place, here, report, start
from mixture import Dense, Mixture

WIDTH = 32
EXPERTS = 4
TOKENS = 64  # of each rank


def difference(mine: Tensor, wanted: Tensor) -> float:
    """The largest difference, relative to the largest number that is wanted."""
    return ((mine - wanted).abs().max() / wanted.abs().max()).item()


def flat(parameters: list[Tensor], gradients: bool = True) -> Tensor:
    return torch.cat([(each.grad if gradients else each).flatten() for each in parameters])


def make(top: int, place: Place) -> Mixture:
    torch.manual_seed(0)
    model = Mixture(WIDTH, EXPERTS, top, place.world_size, place.rank)
    return model.double().to(place.device)


def compare(top: int, place: Place) -> dict:
    """Output and gradients of this rank, against those of one process that has everything."""
    model = make(top, place)
    torch.manual_seed(0)
    whole = Dense(WIDTH, EXPERTS, top).double().to(place.device)
    tokens = torch.randn(place.world_size * TOKENS, WIDTH, dtype=torch.float64).to(place.device)
    x = tokens.chunk(place.world_size)[place.rank].clone().requires_grad_()
    all_x = tokens.clone().requires_grad_()
    with Collectives() as seen:
        out = model(x)
        out.square().sum().backward()
    wanted = whole(all_x)
    wanted.square().sum().backward()

    # Each rank's router has seen this rank's tokens alone; an expert has seen all of its own.
    router = model.router.weight.grad.clone()
    dist.all_reduce(router)
    local = EXPERTS // place.world_size
    own = whole.experts[local * place.rank : local * (place.rank + 1)]
    experts = flat(list(model.experts.parameters()))
    averaged = experts.clone()
    dist.all_reduce(averaged)
    averaged /= place.world_size
    right = flat(list(own.parameters()))

    part = slice(place.rank * TOKENS, (place.rank + 1) * TOKENS)
    return {
        "difference": {
            "out": difference(out.detach(), wanted[part].detach()),
            "dx": difference(x.grad, all_x.grad[part]),
            "dexperts": difference(experts, right),
            "drouter": difference(router, whole.router.weight.grad),
        },
        "averaged": difference(averaged, right),
        "alone": difference(model.router.weight.grad, whole.router.weight.grad),
        "counts": model.counts.tolist(),
        "rows": model.rows,
        "calls": seen.totals(),
    }


def wrapped(spare: bool, place: Place) -> list[float]:
    """The first weight of each rank's first expert, once DDP has wrapped the layer."""
    model = make(1, place)
    if spare:
        names = [f"experts.{name}" for name, _ in model.experts.named_parameters()]
        ignore = DistributedDataParallel._set_params_and_buffers_to_ignore_for_model
        ignore(model, names)
    DistributedDataParallel(model)
    weight = model.experts[0][0].weight[0, 0].detach()
    weights = [torch.zeros_like(weight) for _ in range(place.world_size)]
    dist.all_gather(weights, weight)
    return [each.item() for each in weights]


def refusal(rows: int, give: list[int] | None, group: dist.ProcessGroup) -> str:
    """What gloo says to an all-to-all of so many rows that every rank calls with these sizes."""
    tensor = torch.zeros(rows)
    try:
        dist.all_to_all_single(torch.empty_like(tensor), tensor, give, give, group=group)
        return ""
    except (RuntimeError, ValueError) as error:
        return str(error).splitlines()[0]


@record
def main() -> None:
    place = here()
    start(place)
    runs = {}
    for top in (1, 2):
        runs[f"top-{top}"] = compare(top, place)
        if place.rank == 0:
            print(f"top-{top}: rank 0 differs by", runs[f"top-{top}"]["difference"])
    ddp = {"DDP": wrapped(False, place), "DDP, experts left out": wrapped(True, place)}
    # Without sizes, nccl does not check whether the ranks can share the rows equally; gloo does.
    gloo = dist.new_group(backend="gloo", timeout=timedelta(seconds=60))
    uneven = 2 * place.world_size + 1
    refused = {
        "no sizes": refusal(uneven, None, gloo),
        "wrong sizes": refusal(uneven, [2] * place.world_size, gloo),
    }
    report("experts", place, runs=runs, ddp=ddp, refused=refused, width=WIDTH)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
