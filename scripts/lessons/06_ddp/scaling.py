"""When are two ranks faster? Seconds a step over model size and batch size, all ways of running interleaved.

Run:  torchrun --standalone --nproc-per-node=2 scaling.py --widths 8 32 --batches 16 128
"""

import argparse
import statistics
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report
from model import ResNet


def stepper(width: int, batch_size: int, shared: bool, place: Place) -> Callable[[], None]:
    """A training step of a ResNet on `batch_size` random pictures a rank, with DDP or without."""
    model = ResNet((width, 2 * width, 2 * width)).to(place.device, memory_format=torch.channels_last)
    trained = DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True) if shared else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x = torch.randn(batch_size, 3, 32, 32).to(place.device, memory_format=torch.channels_last)
    y = torch.randint(10, (batch_size,)).to(place.device)

    def step() -> None:
        optimizer.zero_grad()
        output = trained(x)
        loss = torch.nn.functional.cross_entropy(output, y)
        loss.backward()
        optimizer.step()

    return step


def seconds(step: Callable[[], None], steps: int, takes_part: bool, place: Place) -> float:
    """Seconds a step, of the slower rank; ranks that take no part wait."""
    device = place.device
    synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    dist.all_reduce(torch.zeros(1, device=device))  # all begin together
    synchronize()
    start = time.perf_counter()
    for _ in range(steps if takes_part else 0):
        step()
    synchronize()
    took = torch.tensor((time.perf_counter() - start) / steps, device=device)
    dist.all_reduce(took, dist.ReduceOp.MAX)
    return took.item()


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--batches", type=int, nargs="+", default=[16, 128], help="pictures of all ranks together")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2, help="steps in a round, of the largest batch")
    parser.add_argument("--timeout", type=float, default=60)
    args, place = parser.parse_args(), here()
    dist.init_process_group(place.backend, timeout=timedelta(seconds=args.timeout))

    n, table = place.world_size, []
    for width in args.widths:
        for batch in args.batches:
            ways = {  # pictures a rank, with DDP or without, and who takes part
                "alone": (batch, False, place.rank == 0),
                "ddp": (batch // n, True, True),
                "silent": (batch // n, False, True),
                "weak": (batch, True, True),
            }
            steps = {name: stepper(width, size, shared, place) for name, (size, shared, _) in ways.items()}
            times = {name: [] for name in ways}
            count = round(args.steps * (max(args.batches) / batch) ** 0.5)  # small batches are over soon: more of them
            for _ in range(args.rounds + 1):
                for name, (_, _, takes_part) in ways.items():
                    times[name].append(seconds(steps[name], count, takes_part, place))
            table.append({"width": width, "batch": batch})
            table[-1] |= {name: statistics.median(taken[1:]) for name, taken in times.items()}  # the first warms up
            if place.rank == 0:
                strong, weak = (k * table[-1]["alone"] / table[-1][way] for k, way in [(1, "ddp"), (n, "weak")])
                print(f"width {width:3}, batch {batch:4}: {strong:.2f} × one rank; batch of {n * batch}: {weak:.2f} ×")
    report("scaling", place, table=table)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
