"""What a message costs on a link, and how much of a second machine the link leaves over.

Run:  python link.py
      torchrun --standalone --nproc-per-node=2 link.py --gbit 1,0.1
"""

import argparse
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.flop_counter import FlopCounterMode

from devices import Place, here, report, start
from stopwatch import in_turns
from wire import Wire, hook, network

HERE = "this machine"  # the link that nobody made up
SIZES = [4, 2**10, 2**14, 2**17, 2**20, 2**22]  # bytes of a message: 4 B to 4 MiB
WIDTHS = [64, 256, 768]  # of the networks: 8 thousand to 1.2 million parameters


def links(gbits: str, latency_ms: float, place: Place) -> dict[str, Wire | None]:
    """Lesson 09's wires by their names, such as "1 Gbit/s"; on this machine there is none."""
    wires: dict[str, Wire | None] = {HERE: None}
    for gbit in gbits.split(","):
        name = f"{gbit} Gbit/s"
        wires[name] = Wire(place, float(gbit), latency_ms / 1000)
    return wires


def send(message: Tensor, wire: Wire | None) -> None:
    """Add up a message of all ranks, and come back when it has crossed the wire."""
    work = dist.all_reduce(message, async_op=True)
    if wire:
        wire.send(message, work).wait()
    else:
        work.wait()


def stepping(model: nn.Module, rows: int, width: int, place: Place) -> Callable[[], None]:
    """One training step of a model on noise (rows, width)."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(rows, width, device=place.device)

    def step() -> None:
        optimizer.zero_grad()
        output = model(x)
        loss = output.square().mean()
        loss.backward()
        optimizer.step()

    return step


def over(wire: Wire | None, model: nn.Module) -> DistributedDataParallel:
    """The model under DDP, whose gradients cross the wire in one message."""
    ddp_model = DistributedDataParallel(model, bucket_cap_mb=64)
    if wire:
        ddp_model.register_comm_hook(wire, hook)
    return ddp_model


def bytes_of(step: Callable[[], None], wire: Wire) -> list[int]:
    """The bytes of each message that one more step sends over a wire, from the wire's log."""
    wire.log.clear()
    step()
    return [message["bytes"] for message in wire.log]


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gbit", default="1,0.1", help="of the wires, with commas between")
    parser.add_argument("--latency-ms", type=float, default=0.1, help="of the wires")
    parser.add_argument("--rows", type=int, default=256, help="of one rank in one step")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    start(place)
    wires = links(args.gbit, args.latency_ms, place)

    # Messages of every size on every link.
    messages = {}
    for name, wire in wires.items():
        for size in SIZES:
            message = torch.zeros(size // 4, device=place.device)
            messages[name, size] = partial(send, message, wire)
    sweep = in_turns(messages, args.rounds, place.device, before=dist.barrier)

    # A step of every network: alone, and with its gradients on every link.
    steps = {}
    parameters = {}
    for width in WIDTHS:
        model = network(place, width, depth=2)
        parameters[width] = sum(each.numel() for each in model.parameters())
        steps["alone", width] = stepping(model, args.rows, width, place)
        for name, wire in wires.items():
            model = network(place, width, depth=2)
            ddp_model = over(wire, model)
            steps[name, width] = stepping(ddp_model, args.rows, width, place)
    seconds = in_turns(steps, args.rounds, place.device, settle=2, before=dist.barrier)

    # How many bytes did each step send?
    sent = {}
    for width in WIDTHS:
        for name, wire in wires.items():
            if wire:
                key = f"{name}, {parameters[width]}"
                sent[key] = bytes_of(steps[name, width], wire)

    times = {name: {} for name in wires}
    for (name, size), of_size in sweep.items():
        times[name][size] = of_size
    rows = []
    for (name, width), of_step in seconds.items():
        with FlopCounterMode(display=False) as counted:
            steps[name, width]()
        row = {"link": name, "parameters": parameters[width], "seconds": of_step}
        row["work"] = counted.get_total_flops()  # floating-point operations of one rank
        rows.append(row)
    if place.rank == 0:
        for name in wires:
            seconds_of_largest = median(times[name][SIZES[-1]])
            milliseconds = 1000 * seconds_of_largest
            print(f"{name:12} 4 MiB in {milliseconds:6.1f} ms")
    report("link", place, sweep=times, steps=rows, sent=sent)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
