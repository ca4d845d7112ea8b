"""The ways that the bench compares, in processes of their own: seconds of each, round by round.

Run:  export PYTHONPATH=$(echo $PWD/scripts/lessons/* | tr ' ' ':')    # as course.measure does
      cd scripts
      torchrun --standalone --nproc-per-node=2 ways.py ranks ResNet
      torchrun --standalone --nproc-per-node=1 ways.py layout

A kind is a function that returns makers: each makes one way, with all that it needs. What both
sides of a comparison share is in one place here, so that they differ in what the row says alone.
A way that ends in "again" is another one once more: nothing but chance tells them apart.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from itertools import repeat
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import accumulate
import bucket
import budget
from course.measure.launched.alone import compiled, loader
from course.measure.launched.training import NETWORKS, Training, tuned, unwrapped
from course.measure.pairs import Seconds, orders, turns
from devices import here
from dtypes import units
from hooks import Overlapping
from model import ResNet
from ownbackends import on_cpu, register
from shared import Shared
from tune import CHANGES, several
from wire import network

CPU = torch.device("cpu")
BATCH = 64  # of each rank
SETTLE = 2  # rounds that do not count
ONE_PROCESS = {"alone", "two threads"}  # rank 0 takes as many as both ranks together

Way = Callable[[], object]
Makers = dict[str, Callable[[], Way]]


def own_group() -> dist.ProcessGroup | None:
    """A process group on lesson 21's backend in C++; None where it was not built."""
    backend = register("nearby")
    return None if backend == "gloo" else dist.new_group(backend=backend)


def turn(training: Training, way: str, steps: int) -> None:
    """This rank's part in some steps on two ranks' batches."""
    torch.set_num_threads(2 if way == "two threads" else 1)
    if way not in ONE_PROCESS:
        training.steps(BATCH, steps)
    elif dist.get_rank() == 0:
        training.steps(2 * BATCH, steps)


def ranks(name: str, group: dist.ProcessGroup | None) -> Makers:
    """A network on two ranks: under DDP as it is, tuned, on two backends, and without any talk.

    The first network is compared with one process instead of other kinds of DDP.
    """
    chosen = NETWORKS[name]
    wraps = {
        "stock": DistributedDataParallel,
        "silent": unwrapped,
        "silent again": unwrapped,
    }
    if name == "ResNet":
        wraps |= {"alone": unwrapped, "two threads": unwrapped}
    else:
        wraps["tuned"] = tuned
    if group and name != "ResNet":
        wraps["C++"] = partial(tuned, group=group)

    def make(way: str) -> Way:
        torch.manual_seed(0)
        model = chosen.make().to(memory_format=torch.channels_last)
        return partial(turn, Training(model, chosen.inputs, wraps[way]), way, chosen.steps)

    return {way: partial(make, way) for way in wraps}


def messages(size: str, group: dist.ProcessGroup | None) -> Makers:
    """All-reduce of so many bytes; what takes the mean is beside what takes the mean."""
    numbers = int(size) // 4
    shared = Shared(on_cpu(here(), "gloo"))

    def add(group: dist.ProcessGroup | None = None) -> Way:
        return partial(dist.all_reduce, torch.zeros(numbers), group=group)

    def mean() -> Way:
        flat = torch.zeros(numbers)

        def all_reduce() -> None:
            dist.all_reduce(flat)
            flat.div_(dist.get_world_size())

        return all_reduce

    def python() -> Way:
        return partial(shared.average, torch.zeros(numbers))

    def memcpy() -> Way:
        return partial(torch.ones(numbers).copy_, torch.zeros(numbers))

    makers = {"gloo": add, "gloo again": add, "gloo, mean": mean, "Python": python}
    if group:
        makers |= {"C++": partial(add, group), "memcpy": memcpy}
    return makers


def buckets(*_) -> Makers:
    """A step of our own bucketed DDP and of torch's, with buckets of 25 MiB."""
    place = on_cpu(here(), "gloo")
    options = {"bucket_cap_mb": 25, "gradient_as_bucket_view": True}

    def make(wrap: Callable[[nn.Module], nn.Module]) -> Way:
        torch.manual_seed(place.rank)
        x = torch.randn(BATCH, 512)
        step = bucket.training(wrap(network(place)), x)
        return lambda: [step() for _ in range(4)]

    theirs = partial(make, partial(DistributedDataParallel, **options))
    ours = partial(make, partial(Overlapping, bucket_mb=25))
    return {"ours": ours, "torch": theirs, "torch again": theirs}


def accumulation(*_) -> Makers:
    """Steps of four parts each: with a message for every part, and with one for all."""
    place = on_cpu(here(), "gloo")

    def make(way: str) -> Way:
        torch.manual_seed(1 + place.rank)
        x = torch.randn(4 * accumulate.ROWS, 512)
        training = accumulate.Training(way, 4, repeat(x), place)
        return lambda: [training.step() for _ in range(4)]

    ways = {"every part": "every part", "no_sync": "no_sync", "no_sync again": "no_sync"}
    return {name: partial(make, way) for name, way in ways.items()}


def recipe(*_) -> Makers:
    """DDP as textbooks write it; lesson 09's recipe; and the same, its inner model compiled."""
    place = on_cpu(here(), "gloo")

    def make(changes: set[str], fused: bool = False) -> Way:
        training = budget.Training(changes, BATCH, place)
        if fused:
            training.model.module.compile()  # the model in DDP, in lesson 07's order
        return partial(several, training, 2)

    ours = set(CHANGES)
    return {
        "textbook": partial(make, set()),
        "recipe": partial(make, ours),
        "recipe again": partial(make, ours),
        "compiled": partial(make, ours, fused=True),
    }


def layout(*_) -> Makers:
    """One core: NCHW in fp32; channels last, and in bf16 where the CPU computes in it.

    Each way has its pictures ready in its own layout.
    """
    bf16 = units(CPU)["bf16"]

    def make(memory: torch.memory_format, fast: bool) -> Way:
        torch.manual_seed(0)
        x = torch.randn(2 * BATCH, 3, 32, 32).contiguous(memory_format=memory)
        model = ResNet().to(memory_format=memory)
        if fast and bf16:  # as in fast.py: forward where that is safe; backward follows by itself
            forward = torch.autocast("cpu", torch.bfloat16)(model.forward)
            model.forward = lambda x: forward(x).float()  # the loss is fp32
        return partial(Training(model, lambda batch: x).steps, 2 * BATCH, 2)

    plain = partial(make, torch.contiguous_format, False)
    last = partial(make, torch.channels_last, True)
    return {"plain": plain, "plain again": plain, "channels last": last}


KINDS: dict[str, Callable[..., Makers]] = {
    "ranks": ranks,
    "messages": messages,
    "buckets": buckets,
    "accumulation": accumulation,
    "recipe": recipe,
    "layout": layout,
    "loader": loader,
    "compiled": compiled,
}


def slowest(own: Seconds) -> Seconds:
    """The seconds of the slower rank in each turn: a step ends with it."""
    slower = {}
    for way, seconds in own.items():
        numbers = torch.tensor(seconds, dtype=torch.float64)
        dist.all_reduce(numbers, dist.ReduceOp.MAX)
        slower[way] = numbers.tolist()
    return slower


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("argument", nargs="?", default="", help="a network, or bytes")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the order in each round")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    group = own_group()
    makers = KINDS[args.kind](args.argument, group)
    # In random order, too: none always has the best memory.
    (order,) = orders(list(makers), 1, args.seed)
    ways = {name: makers[name]() for name in order}
    # For short messages the barrier of our own backend: ranks leave it at almost the same moment.
    meet = partial(dist.barrier, group=group if args.kind == "messages" else None)
    seconds = slowest(turns(ways, args.rounds, args.seed, SETTLE, meet))
    if dist.get_rank() == 0:
        Path("ways.json").write_text(json.dumps({"seconds": seconds}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
