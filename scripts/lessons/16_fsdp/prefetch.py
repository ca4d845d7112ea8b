"""In which order does FSDP send and compute? What do several passes before an update send?

How long is a step, next to DDP? And do four habits from DDP still work (`habits.py`)?

Run:  python prefetch.py
      torchrun --standalone --nproc-per-node=2 prefetch.py
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.flop_counter import FlopCounterMode

from counter import Collectives
from decoder import WORDS, Decoder
from devices import Place, here, report, start
from habits import tried
from stopwatch import in_turns
from versus import shard

SHORT = {"all_gather": "gather", "reduce_scatter": "scatter"}


def make(place: Place) -> Decoder:
    torch.manual_seed(0)
    return Decoder(width=128, layers=3, length=64).to(place.device)


def look_ahead(model: Decoder) -> None:
    """Each layer starts the all-gather of the next one before it computes."""
    for layer, following in zip(model.layers, model.layers[1:], strict=False):
        layer.set_modules_to_forward_prefetch([following])


def order(model: Decoder, x: torch.Tensor) -> list[str]:
    """What this rank does in a step: collectives, and layers that begin to compute."""
    model(x, x).backward()  # the first step of all prepares
    events = []
    seen = Collectives()
    hooks = []

    def note(event: str) -> None:
        for call in seen.calls:
            events.append(SHORT[call.name])
        seen.calls.clear()
        events.append(event)

    def noting(event: str) -> Callable[..., None]:
        """A function for a hook, which notes this event."""
        return lambda *_: note(event)

    for number, layer in enumerate(model.layers):
        forward = noting(f"forward {number}")
        backward = noting(f"backward {number}")
        hooks.append(layer.norm1.register_forward_pre_hook(forward))
        hooks.append(layer.down.register_full_backward_pre_hook(backward))
    with seen:
        model(x, x).backward()
    note("end")
    for hook in hooks:
        hook.remove()
    return events[:-1]


def accumulate(model: Decoder, x: torch.Tensor, sync: bool) -> dict[str, int]:
    """How many collectives two passes before one update make."""
    with Collectives() as seen:
        model.set_requires_gradient_sync(sync)
        model(x, x).backward()
        model.set_requires_gradient_sync(True)
        model(x, x).backward()
    counts = {}
    for name, (count, _) in seen.totals().items():
        counts[name] = count
    return counts


def stepper(model: nn.Module, x: torch.Tensor) -> Callable[[], None]:
    """A function that passes through the model, forward and backward."""

    def step() -> None:
        loss = model(x, x)
        loss.backward()

    return step


def times(place: Place, mesh: DeviceMesh, x: torch.Tensor) -> dict[str, dict]:
    """Seconds of forward and backward, and the floating-point operations of each way."""
    models: dict[str, nn.Module] = {
        "DDP": DistributedDataParallel(make(place)),
        "FSDP": shard(make(place), mesh),
        "FSDP, root only": fully_shard(make(place), mesh=mesh),
    }
    steps = {name: stepper(model, x) for name, model in models.items()}
    work = {}
    for name, step in steps.items():
        with FlopCounterMode(display=False) as counted:
            step()
        work[name] = counted.get_total_flops()
    seconds = in_turns(steps, rounds=7, device=place.device, before=dist.barrier)
    return {"seconds": seconds, "work": work}


@record
def main() -> None:
    place = here()
    if place.backend == "gloo":
        place = place._replace(device=torch.device("cpu"))  # also where ranks share a GPU
    start(place)
    mesh = init_device_mesh(place.device.type, (place.world_size,))
    x = torch.randint(WORDS, (4, 64), device=place.device)

    orders = {}
    model = shard(make(place), mesh)
    orders["as it is"] = order(model, x)
    look_ahead(model)
    orders["forward prefetch"] = order(model, x)
    passes = {"every pass": accumulate(model, x, sync=True)}
    passes["last pass"] = accumulate(model, x, sync=False)
    timed = times(place, mesh, x)
    if place.rank == 0:
        events = len(orders["as it is"])
        rounds = len(timed["seconds"]["DDP"])
        print(f"{events} events in a step; three ways timed in {rounds} rounds")
    habits = tried(place, mesh)
    report("prefetch", place, orders=orders, passes=passes, habits=habits, **timed)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
