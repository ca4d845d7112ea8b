"""`parallelize_module`: a plan says how each layer is cut. Which collectives does it lead to?

Run:  python planned.py
      torchrun --standalone --nproc-per-node=2 planned.py
"""

from collections import OrderedDict

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)

from counter import Collectives
from cuttable import CONTEXT, WIDTH, Model, batch, compare, whole
from devices import here, report, start
from yardstick import apart

TEXTS = 4
# What comes in is whole on every rank, and shall stay so: but it becomes a DTensor only once.
ONCE = PrepareModuleInput(input_layouts=(Replicate(),), desired_input_layouts=(Replicate(),))
# region plan
PLAN = {
    "attention.query": ColwiseParallel(),
    "attention.key": ColwiseParallel(),
    "attention.value": ColwiseParallel(),
    "attention.out": RowwiseParallel(),
    "mlp.up": ColwiseParallel(),
    "mlp.down": RowwiseParallel(),
}
# endregion
PLANS = {"plain": PLAN, "prepared": PLAN | {"attention": ONCE}}


class Gated(nn.Module):
    """The MLP of many newer models: `gate` decides how much of `up` passes."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.gate = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


def gated_plan() -> dict:
    """Exercise 2: for a module whose only child is `mlp`, a `Gated`."""
    # BEGIN SOLUTION
    return {
        "mlp": ONCE,
        "mlp.up": ColwiseParallel(),
        "mlp.gate": ColwiseParallel(),
        "mlp.down": RowwiseParallel(),
    }
    # STUB return {}
    # END SOLUTION


def language_model(plan: dict, mesh: DeviceMesh) -> dict:
    """One step of the model, with each layer cut by the plan, beside one process's step."""
    tokens, labels = batch(TEXTS)
    torch.manual_seed(0)
    expected = Model().double()
    alone = expected(tokens, labels)
    alone.backward()

    torch.manual_seed(0)
    model = Model().double()
    for layer in model.layers:
        parallelize_module(layer, mesh, plan)
    with Collectives() as forward:
        loss = model(tokens, labels)
    with Collectives() as backward:
        loss.backward()
    gap, kept = compare(model, expected)
    apart_loss = apart(loss, alone, 2 * alone)  # wrong: added up over two ranks
    layers = len(model.layers)
    calls = {"forward": forward.calls, "backward": backward.calls}
    return {"calls": calls, "gap": gap, "loss": apart_loss, "kept": kept, "layers": layers}


def gated(mesh: DeviceMesh) -> dict:
    """The same for one gated MLP and the plan of exercise 2."""
    torch.manual_seed(0)
    expected = nn.Sequential(OrderedDict(mlp=Gated())).double()
    torch.manual_seed(0)
    model = nn.Sequential(OrderedDict(mlp=Gated())).double()
    x = torch.randn(TEXTS, CONTEXT, WIDTH, dtype=torch.float64, requires_grad=True)
    alone = expected(x).square().mean()
    alone.backward()
    try:
        parallelize_module(model, mesh, gated_plan())
        with Collectives() as seen:
            y = whole(model(x))
            mean_square = y.square().mean()
            mean_square.backward()
        gap, kept = compare(model, expected)
    except (RuntimeError, ValueError, AssertionError, NotImplementedError) as error:
        return {"refusal": str(error)}
    return {"refusal": "", "gap": gap, "kept": kept, "calls": seen.calls}


@record
def main() -> None:
    place = here(gpus=0)  # gloo and the CPU everywhere: what matters is who sends what
    start(place)
    mesh = init_device_mesh("cpu", (place.world_size,))
    plans = {name: language_model(plan, mesh) for name, plan in PLANS.items()}
    outcome = gated(mesh)
    if place.rank == 0:
        for name, run in plans.items():
            counts = {way: len(calls) for way, calls in run["calls"].items()}
            print(f"{name}: {counts} collectives in {run['layers']} layers, gap {run['gap']:.1e}")
    numbers = sum(each.numel() for each in Model().parameters())
    size = TEXTS * CONTEXT * WIDTH * 8  # bytes of what goes from layer to layer, in float64
    sizes = {"numbers": numbers, "size": size, "gated_numbers": 3 * 4 * WIDTH * WIDTH}
    report("planned", place, plans=plans, gated=outcome, **sizes)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
