"""Experts on several ranks against all of them in one process, and which gradients to add up.

Run:  python experts.py
      torchrun --standalone --nproc-per-node=2 experts.py
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from counter import Collectives
from devices import Place, here, report, start
from mixture import Dense, Mixture
from yardstick import apart, farthest

WIDTH = 32
EXPERTS = 4
TOKENS = 64  # of each rank


def gap(mine: Tensor, wanted: Tensor) -> float:
    """How far they are apart, beside what belongs to other tokens or experts."""
    others = wanted.flip(0)
    return apart(mine, wanted, others)


def flat_gradients(module: nn.Module) -> Tensor:
    """The gradients of all parameters, one behind the other."""
    return torch.cat([each.grad.flatten() for each in module.parameters()])


def make(top: int, place: Place) -> Mixture:
    torch.manual_seed(0)
    model = Mixture(WIDTH, EXPERTS, top, place.world_size, place.rank)
    return model.double().to(place.device)


def compare(top: int, place: Place) -> dict:
    """Output and gradients of this rank, against those of one process that has everything."""
    model = make(top, place)
    torch.manual_seed(0)
    whole = Dense(WIDTH, EXPERTS, top).double()
    whole = whole.to(place.device)
    tokens = torch.randn(place.world_size * TOKENS, WIDTH, dtype=torch.float64)
    tokens = tokens.to(place.device)
    own_tokens = tokens.chunk(place.world_size)[place.rank]
    x = own_tokens.clone().requires_grad_()
    all_x = tokens.clone().requires_grad_()
    with Collectives() as seen:
        out = model(x)
        loss = out.square().sum()
        loss.backward()
    wanted = whole(all_x)
    whole_loss = wanted.square().sum()
    whole_loss.backward()

    # Each rank's router has seen this rank's tokens alone; an expert has seen all of its own.
    router = model.router.weight.grad
    all_routers = router.clone()
    dist.all_reduce(all_routers)
    experts = flat_gradients(model.experts)
    averaged = experts.clone()
    dist.all_reduce(averaged)
    averaged /= place.world_size

    # The same of the one process: this rank's rows, and this rank's experts.
    first = place.rank * TOKENS
    rows = slice(first, first + TOKENS)
    local = EXPERTS // place.world_size
    own = whole.experts[local * place.rank : local * (place.rank + 1)]
    right_experts = flat_gradients(own)
    right_router = whole.router.weight.grad
    return {
        "difference": {
            "out": gap(out, wanted[rows]),
            "dx": gap(x.grad, all_x.grad[rows]),
            "dexperts": gap(experts, right_experts),
            "drouter": gap(all_routers, right_router),
        },
        "averaged": farthest(averaged, right_experts),
        "alone": farthest(router, right_router),
        "counts": model.counts.tolist(),
        "rows": model.rows,
        "calls": seen.totals(),
    }


def wrapped(spare: bool, place: Place) -> list[float]:
    """The first weight of each rank's first expert, once DDP has wrapped the layer."""
    model = make(1, place)
    if spare:
        parameters = model.experts.named_parameters()
        names = [f"experts.{name}" for name, _ in parameters]
        ignore = DistributedDataParallel._set_params_and_buffers_to_ignore_for_model
        ignore(model, names)
    DistributedDataParallel(model)
    first_layer = model.experts[0][0]
    weight = first_layer.weight[0, 0].detach()
    weights = [torch.zeros_like(weight) for _ in range(place.world_size)]
    dist.all_gather(weights, weight)
    return [each.item() for each in weights]


def refusal(rows: int, give: list[int] | None, group: dist.ProcessGroup) -> str:
    """What gloo says to an all-to-all of so many rows that every rank calls with these sizes."""
    rows_out = torch.zeros(rows)
    rows_in = torch.empty_like(rows_out)
    try:
        dist.all_to_all_single(rows_in, rows_out, give, give, group=group)
        return ""
    except (RuntimeError, ValueError) as error:
        return str(error).splitlines()[0]


@record
def main() -> None:
    place = here()
    start(place)
    runs = {}
    for top in (1, 2):
        run = compare(top, place)
        runs[f"top-{top}"] = run
        if place.rank == 0:
            print(f"top-{top}: rank 0 differs by", run["difference"])
    ddp = {
        "DDP": wrapped(False, place),
        "DDP, experts left out": wrapped(True, place),
    }
    # Ask gloo, also where the ranks use nccl: in older versions nccl does not check whether the
    # ranks can share the rows equally. (In torch 2.10 and 2.11 gloo does not; in 2.15 it does.)
    gloo = dist.new_group(backend="gloo", timeout=timedelta(seconds=60))
    uneven = 2 * place.world_size + 1
    one_too_few = [2] * place.world_size
    refused = {
        "no sizes": refusal(uneven, None, gloo),
        "wrong sizes": refusal(uneven, one_too_few, gloo),
    }
    report("experts", place, runs=runs, ddp=ddp, refused=refused, width=WIDTH)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
