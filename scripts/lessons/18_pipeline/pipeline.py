"""One model, cut between its layers: each rank holds one stage, and a batch passes in parts.

The two schedules, GPipe and 1F1B, differ only in the order of the forward passes (F) and the
backward passes (B) on each rank. Every message carries its sender's clock.

Run:  python pipeline.py
      torchrun --standalone --nproc-per-node=2 pipeline.py
      torchrun --standalone --nproc-per-node=4 pipeline.py --parts 1 4 16
"""

import time
from argparse import ArgumentParser

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.functional import mse_loss

from devices import Place, here, report, start
from dials import Action, Clock, receive, send
from yardstick import apart

LAYERS = 8
WIDTH = 256


def order(schedule: str, rank: int, ranks: int, parts: int) -> list[Action]:
    """What this rank does in one step, from first to last."""
    forwards = [("F", i) for i in range(parts)]
    backwards = [("B", i) for i in range(parts)]
    if schedule == "GPipe":
        return forwards + backwards
    # 1F1B: some forward passes ahead, one for each rank that comes after. Then in turns.
    ahead = min(ranks - 1 - rank, parts)
    actions = forwards[:ahead]
    for pair in zip(forwards[ahead:], backwards, strict=False):
        actions += pair
    return actions + backwards[parts - ahead :]


def step(
    stage: nn.Module, batch: Tensor, target: Tensor, actions: list, place: Place, clock: Clock
) -> tuple[float, int]:
    """The gradients of one batch: its loss, and the most micro-batches that were alive at once."""
    parts = len(actions) // 2
    x_parts = batch.chunk(parts)
    targets = target.chunk(parts)
    previous = place.rank - 1
    following = place.rank + 1
    last = following == place.world_size
    alive = {}  # micro-batch → the stage's input and output, which its backward pass needs
    most = 0
    loss = 0.0
    sent = []
    for action in actions:
        kind, i = action
        if kind == "F":
            x = x_parts[i]
            if place.rank > 0:
                x = receive(x, previous, clock)
            x.requires_grad_()
            y = clock.run(action, stage, x)
            alive[i] = (x, y)
            most = max(most, len(alive))
            if not last:
                message = send(y, following, clock)
                sent.append(message)
        else:
            x, y = alive.pop(i)
            if last:
                share = mse_loss(y, targets[i]) / parts  # of the loss, which is a mean
                (gradient,) = torch.autograd.grad(share, y)
                loss += share.item()
            else:
                gradient = receive(y, following, clock)
            clock.run(action, y.backward, gradient)
            if place.rank > 0:
                message = send(x.grad, previous, clock)
                sent.append(message)
    for message in sent:
        message.wait()
    return loss, most


@record
def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--rounds", type=int, default=3, help="of which the clock keeps the best")
    parser.add_argument("--rows", type=int, default=2048, help="in a batch")
    args = parser.parse_args()
    # gloo everywhere: the stages are on the CPU, because the clock counts CPU seconds.
    place = here(gpus=0)
    torch.set_num_threads(1)  # a rank computes in one thread, the one whose seconds are counted
    start(place)

    torch.manual_seed(0)
    layers = []
    for _ in range(LAYERS):
        linear = nn.Linear(WIDTH, WIDTH)
        layers.append(nn.Sequential(linear, nn.Tanh()))
    model = nn.Sequential(*layers).double()
    batch, target = torch.randn(2, args.rows, WIDTH, dtype=torch.float64)

    begin = LAYERS * place.rank // place.world_size
    end = LAYERS * (place.rank + 1) // place.world_size
    stage = model[begin:end]
    whole_loss = mse_loss(model(batch), target)  # what one process would do
    weights = list(stage.parameters())
    whole = torch.autograd.grad(whole_loss, weights)
    added_up = [2 * each for each in whole]  # wrong: the sum over two micro-batches, not the mean

    runs = []
    for parts in args.parts:
        for schedule in ["GPipe", "1F1B"]:
            actions = order(schedule, place.rank, place.world_size, parts)
            shortest: dict[str, float] = {}
            for _ in range(args.rounds):
                stage.zero_grad()
                clock = Clock(shortest)
                dist.barrier()
                began = time.perf_counter()
                loss, most = step(stage, batch, target, actions, place, clock)
                wall = time.perf_counter() - began

            gap = apart([each.grad for each in weights], whole, added_up)
            now = clock.now.tolist()
            busy = clock.busy.tolist()
            run = {"schedule": schedule, "parts": parts, "most": most, "gap": gap}
            run |= {"now": now, "busy": busy, "wall": wall, "loss": loss, "spans": clock.spans}
            runs.append(run)
    if place.rank == 0:
        print(f"{len(layers)} layers on {place.world_size} ranks, {args.rounds} rounds of each run")
    report("pipeline", place, runs=runs, loss=whole_loss.item(), layers=len(stage))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
