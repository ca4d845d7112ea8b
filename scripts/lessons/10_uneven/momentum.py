"""What Join leaves behind: the optimizer's memory. Two epochs with momentum, on one optimizer a rank, and on shards.

Run:  python momentum.py
      torchrun --standalone --nproc-per-node=2 momentum.py
"""

import argparse
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.join import Join
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report

WAYS = ["SGD", "SGD, mended", "ZeRO", "ZeRO, mended"]


class Twins(nn.Module):
    """Weights that start alike and have the same gradient in every step: if they part, somebody made a mistake."""

    def __init__(self, count: int):
        super().__init__()
        self.w = nn.ParameterList(nn.Parameter(torch.zeros((), dtype=torch.float64)) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        return sum((w - x).square() for w in self.w)


def keep(group: dist.ProcessGroup, bucket: dist.GradBucket) -> Future[Tensor]:
    """DDP's all-reduce; the average is then put into `.grad`, also on ranks that have finished."""
    work = dist.all_reduce(bucket.buffer().div_(group.size()), group=group, async_op=True)

    def store(future: Future[list[Tensor]]) -> Tensor:
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
            parameter.grad = gradient.clone()
        return future.value()[0]

    return work.get_future().then(store)


def train(way: str, place: Place) -> dict[str, object]:
    """Both epochs: all weights after each step of this rank, and when all had joined; how many its optimizer holds."""
    model = Twins(place.world_size).to(place.device)
    ddp_model = DistributedDataParallel(model)
    settings = {"lr": 0.05, "momentum": 0.9}
    if way.startswith("ZeRO"):
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, **settings)
        own, joinables = optimizer.optim, [ddp_model, optimizer]
    else:
        own = optimizer = torch.optim.SGD(model.parameters(), **settings)
        joinables = [ddp_model]
    if way == "ZeRO, mended":
        ddp_model.register_comm_hook(dist.group.WORLD, keep)

    trace, ends = [], []
    for _ in range(2):
        with Join(joinables):
            for number in range(1, 3 * place.rank + 4):  # rank 0 has three batches, rank 1 six
                optimizer.zero_grad()
                loss = ddp_model(torch.tensor(float(number), dtype=torch.float64, device=place.device))
                loss.backward()
                optimizer.step()
                trace.append([w.item() for w in model.w])
        if way == "SGD, mended":
            for state in optimizer.state.values():
                dist.broadcast(state["momentum_buffer"], src=place.world_size - 1)  # the rank with the most batches
        ends.append([w.item() for w in model.w])
    return {"trace": trace, "ends": ends, "held": len(own.state)}


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timeout", type=float, default=60)
    args, place = parser.parse_args(), here()
    dist.init_process_group(place.backend, timeout=timedelta(seconds=args.timeout))

    found = {way: train(way, place) for way in WAYS}
    if place.rank == 0:
        for way, run in found.items():
            ends = ", ".join(f"{weight:.4f}" for weight in run["ends"][-1])
            print(f"{way:13} weights in the end: {ends}; rank 0 keeps the momentum of {run['held']}")
    report("momentum", place, ways=found)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
