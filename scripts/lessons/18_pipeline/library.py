"""The schedules of torch.distributed.pipelining: order, saved bytes, and gradients of each.

Run:  torchrun --standalone --nproc-per-node=2 library.py
"""

import copy
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import pipelining
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.pipelining.schedules import get_schedule_class
from torch.nn.functional import mse_loss

from devices import Place, here, report, start
from yardstick import apart

LAYERS = 8
WIDTH = 128
PARTS = 8  # micro-batches in a batch
ROWS = 64  # in a micro-batch
ONE_STAGE = ["GPipe", "1F1B"]
TWO_STAGES = ["LoopedBFS", "Interleaved1F1B", "InterleavedZeroBubble"]
V_SHAPED = ["ZBVZeroBubble", "DualPipeV"]  # the last rank holds two stages in a row
MAJOR, MINOR = torch.__version__.split(".")[:2]
V_WORKS = (int(MAJOR), int(MINOR)) >= (2, 15)  # on gloo, 2.10 fails at two stages in a row


class Saved:
    """Bytes that autograd keeps for backward passes to come, without the weights."""

    def __init__(self, weights: set[int]) -> None:
        self.weights = weights
        self.now = 0
        self.peak = 0

    def pack(self, tensor: Tensor) -> "Kept":
        size = tensor.nbytes
        if tensor.untyped_storage().data_ptr() in self.weights:
            size = 0
        self.now += size
        self.peak = max(self.peak, self.now)
        return Kept(tensor, size, self)


class Kept:
    """A saved tensor. It tells when autograd lets it go."""

    def __init__(self, tensor: Tensor, size: int, saved: Saved) -> None:
        self.tensor = tensor
        self.size = size
        self.saved = saved

    def __del__(self) -> None:
        self.saved.now -= self.size


def stages_of(name: str, rank: int, ranks: int) -> list[int]:
    """The numbers of the stages that a rank holds under this schedule."""
    if name in ONE_STAGE:
        return [rank]
    if name in V_SHAPED:
        return [rank, 2 * ranks - 1 - rank]
    return [rank, rank + ranks]


def watch(stage: pipelining.PipelineStage, actions: list[tuple[int, str, int]]) -> None:
    """From now on, each forward (F) and backward (B) of this stage adds a line to `actions`.

    Zero-bubble schedules cut a backward in two: the gradient of the input (I), which the rank
    before is waiting for, and later the gradients of the weights (W).
    """

    def watched(call: Callable, kind: str) -> Callable:
        def noting(part: int, *args, **kwargs):
            halved = kind == "B" and kwargs.get("full_backward") is False
            letter = "I" if halved else kind
            actions.append((stage.stage_index, letter, part))
            return call(part, *args, **kwargs)

        return noting

    stage.forward_one_chunk = watched(stage.forward_one_chunk, "F")
    stage.backward_one_chunk = watched(stage.backward_one_chunk, "B")
    stage.backward_weight_one_chunk = watched(stage.backward_weight_one_chunk, "W")


def run(name: str, model: nn.Sequential, x: Tensor, y: Tensor, place: Place) -> dict:
    """One step of one schedule: the order of this rank's actions, saved bytes, gradients."""
    numbers = stages_of(name, place.rank, place.world_size)
    count = place.world_size * len(numbers)
    size = LAYERS // count
    own = copy.deepcopy(model)
    own.zero_grad()
    actions: list[tuple[int, str, int]] = []
    stages = []
    for number in numbers:
        part = own[size * number : size * (number + 1)]
        stage = pipelining.PipelineStage(part, number, count, place.device)
        watch(stage, actions)
        stages.append(stage)
    given = stages[0] if name in ONE_STAGE else stages
    schedule_class = get_schedule_class(name)
    schedule = schedule_class(given, n_microbatches=PARTS, loss_fn=mse_loss)

    weights = {weight.untyped_storage().data_ptr() for weight in own.parameters()}
    saved = Saved(weights)
    losses: list[Tensor] = []
    inputs = []
    extra = {}
    if 0 in numbers:  # the first stage gets the batch
        inputs = [x]
    if count - 1 in numbers:  # the last stage computes the losses
        extra = {"target": y, "losses": losses}
    with torch.autograd.graph.saved_tensors_hooks(saved.pack, lambda kept: kept.tensor):
        schedule.step(*inputs, **extra)

    pairs = list(zip(own.parameters(), model.parameters(), strict=True))
    gradients = [each.grad for each, _ in pairs if each.grad is not None]
    wanted = [full.grad for each, full in pairs if each.grad is not None]
    added_up = [PARTS * each for each in wanted]  # wrong: not the mean over the micro-batches
    gap = apart(gradients, wanted, added_up)
    loss = torch.stack(losses).mean().item() if losses else None
    return {"actions": actions, "saved": saved.peak, "gap": gap, "loss": loss}


@record
def main() -> None:
    place = here(gpus=0)
    torch.set_num_threads(1)
    start(place)

    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(LAYERS)]
    model = nn.Sequential(*layers).double()
    x, y = torch.randn(2, PARTS * ROWS, WIDTH, dtype=torch.float64)
    loss = mse_loss(model(x), y)
    loss.backward()  # what one process does

    runs = {}
    for name in ONE_STAGE + TWO_STAGES + V_SHAPED:
        if V_WORKS or name not in V_SHAPED:
            runs[name] = run(name, model, x, y, place)
    if place.rank == 0:
        print(f"{len(runs)} schedules, {PARTS} micro-batches each")
    report("library", place, runs=runs, loss=loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
