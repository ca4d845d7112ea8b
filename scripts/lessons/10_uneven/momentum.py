"""What Join leaves behind: the optimizer's memory. Two epochs with momentum, whole and in shards.

Run:  python momentum.py
      torchrun --standalone --nproc-per-node=2 momentum.py
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.join import Join
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report, start

WAYS = ["SGD", "SGD, mended", "ZeRO", "ZeRO, mended"]


class Twins(nn.Module):
    """Weights that start alike and have the same loss: they should stay alike."""

    def __init__(self, count: int):
        super().__init__()
        self.w = nn.ParameterList()
        for _ in range(count):
            zero = torch.zeros((), dtype=torch.float64)
            self.w.append(nn.Parameter(zero))

    def forward(self, x: Tensor) -> Tensor:
        losses = [(w - x).square() for w in self.w]
        return sum(losses)

    def values(self) -> list[float]:
        return [w.item() for w in self.w]


def keep(group: dist.ProcessGroup, bucket: dist.GradBucket) -> Future[Tensor]:
    """DDP's all-reduce; the average is then put into `.grad`, also on ranks that have finished."""
    share = bucket.buffer().div_(group.size())
    work = dist.all_reduce(share, group=group, async_op=True)

    def store(future: Future[list[Tensor]]) -> Tensor:
        pairs = zip(bucket.parameters(), bucket.gradients(), strict=True)
        for parameter, gradient in pairs:
            parameter.grad = gradient.clone()
        return future.value()[0]

    future = work.get_future()
    return future.then(store)


def train(way: str, place: Place) -> dict[str, object]:
    """Both epochs of one way.

    Returns all weights after each step of this rank, and at the end of each epoch, when all had
    joined; and for how many weights this rank's optimizer holds the momentum.
    """
    model = Twins(place.world_size).to(place.device)
    ddp_model = DistributedDataParallel(model)
    settings = {"lr": 0.05, "momentum": 0.9}
    if way.startswith("ZeRO"):
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, **settings)
        own = optimizer.optim
        joinables = [ddp_model, optimizer]
    else:
        optimizer = torch.optim.SGD(model.parameters(), **settings)
        own = optimizer
        joinables = [ddp_model]
    if way == "ZeRO, mended":
        ddp_model.register_comm_hook(dist.group.WORLD, keep)

    batches = 3 * (place.rank + 1)  # rank 0 has three batches, rank 1 six
    numbers = torch.arange(1, batches + 1, dtype=torch.float64, device=place.device)
    trace = []
    ends = []
    for _ in range(2):
        with Join(joinables):
            for number in numbers:
                optimizer.zero_grad()
                loss = ddp_model(number)
                loss.backward()
                optimizer.step()
                trace.append(model.values())
        if way == "SGD, mended":
            last = place.world_size - 1  # the rank with the most batches
            for state in optimizer.state.values():
                dist.broadcast(state["momentum_buffer"], src=last)
        ends.append(model.values())
    held = len(own.state)
    return {"trace": trace, "ends": ends, "held": held}


@record
def main() -> None:
    place = here()
    start(place)

    runs = {way: train(way, place) for way in WAYS}
    if place.rank == 0:
        for way, run in runs.items():
            weights = [f"{weight:.4f}" for weight in run["ends"][-1]]
            ends = ", ".join(weights)
            held = run["held"]
            print(f"{way:13} weights in the end: {ends}; rank 0 keeps the momentum of {held}")
    report("momentum", place, ways=runs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
