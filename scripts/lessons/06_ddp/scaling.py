"""When are two ranks faster? Seconds a step over model size and batch size, all ways in turns.

Run:  torchrun --standalone --nproc-per-node=2 scaling.py --widths 8 32 --batches 16 128
"""

import argparse
import statistics
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report
from model import ResNet
from stopwatch import in_turns, slowest


def stepper(width: int, batch_size: int, with_ddp: bool, place: Place) -> Callable[[], int]:
    """A training step of a ResNet on random pictures; it returns how many these are, a rank."""
    layout = torch.channels_last
    widths = (width, 2 * width, 2 * width)
    network = ResNet(widths)
    network.to(place.device, memory_format=layout)
    model = network
    if with_ddp:
        model = DistributedDataParallel(network)
    parameters = network.parameters()
    optimizer = torch.optim.SGD(parameters, lr=0.01, momentum=0.9)
    x = torch.randn(batch_size, 3, 32, 32)
    y = torch.randint(10, (batch_size,))
    x = x.to(place.device, memory_format=layout)
    y = y.to(place.device)

    def step() -> int:
        optimizer.zero_grad()
        output = model(x)
        loss = torch.nn.functional.cross_entropy(output, y)
        loss.backward()
        optimizer.step()
        return len(output)

    return step


def repeated(step: Callable[[], int], count: int) -> Callable[[], None]:
    """So many steps as one call, since a single small step is too short to time."""

    def steps() -> None:
        for _ in range(count):
            step()

    return steps


def measure(width: int, batch: int, count: int, rounds: int, place: Place) -> dict[str, dict]:
    """`seconds` a step of the slowest rank in each round of `count` steps; `pictures` of a rank."""
    share = batch // place.world_size
    steps = {
        "alone": stepper(width, batch, with_ddp=False, place=place),  # rank 0 on the whole batch
        "ddp": stepper(width, share, with_ddp=True, place=place),
        "silent": stepper(width, share, with_ddp=False, place=place),  # ranks that never talk
        "weak": stepper(width, batch, with_ddp=True, place=place),  # a whole batch for each rank
    }
    pictures = {}
    ways = {}
    for name, step in steps.items():
        pictures[name] = step()
        ways[name] = repeated(step, count)
    if place.rank > 0:
        ways["alone"] = lambda: None  # the other ranks wait

    times = in_turns(ways, rounds, place.device, before=dist.barrier)
    rounds_of = {}
    for name, own_times in times.items():
        own_steps = [own / count for own in own_times]
        rounds_of[name] = [slowest(own, place.device) for own in own_steps]
    return {"seconds": rounds_of, "pictures": pictures}


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--batches", type=int, nargs="+", default=[16, 128], help="of all ranks")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2, help="in a round, of the largest batch")
    args = parser.parse_args()
    limit = timedelta(seconds=60)
    dist.init_process_group(place.backend, timeout=limit, device_id=place.bound)

    table = []
    largest = max(args.batches)
    for width in args.widths:
        for batch in args.batches:
            # Small batches are over soon: more of them.
            factor = (largest / batch) ** 0.5
            count = round(args.steps * factor)
            measured = measure(width, batch, count, args.rounds, place)
            times = {}
            for name, each in measured["seconds"].items():
                times[name] = statistics.median(each)
            table.append({"width": width, "batch": batch} | measured | times)

            n = place.world_size
            alone = times["alone"]
            strong = alone / times["ddp"]
            weak = n * alone / times["weak"]
            if place.rank == 0:
                shared = f"width {width:3}, batch {batch:4}: {strong:.2f} × one rank"
                print(f"{shared}; batch of {n * batch}: {weak:.2f} ×")
    report("scaling", place, table=table)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
