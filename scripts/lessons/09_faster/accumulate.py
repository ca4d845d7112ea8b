"""Several small batches make one step. How often do the ranks talk, and how often need they?

Run:  torchrun --standalone --nproc-per-node=2 accumulate.py
"""

import argparse
import math
from collections.abc import Iterator
from contextlib import nullcontext
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report, start
from stopwatch import in_turns
from wire import Wire, gradients, hook, network
from yardstick import apart

ROWS = 16  # in a part
SETTLE = 2  # rounds that do not count: DDP puts its buckets in order after the first step


class Training:
    """A network under DDP whose optimizer steps once for several parts of a batch.

    `way` is "every part" or "no_sync". The wire's log holds the messages of the newest step.
    """

    def __init__(
        self, way: str, parts: int, inputs: list[Tensor], place: Place, gbit: float = math.inf
    ):
        self.way = way
        self.parts = parts
        self.inputs: Iterator[Tensor] = iter(inputs)
        self.wire = Wire(place, gbit)
        # If you pass the size yourself, it applies to the first bucket, too, which else has 1 MiB.
        # So with 25 MiB a backward pass sends one message.
        options = {"bucket_cap_mb": 25, "gradient_as_bucket_view": True}
        model = network(place)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        self.ddp_model = DistributedDataParallel(model, **options)
        self.ddp_model.register_comm_hook(self.wire, hook)

    def step(self) -> None:
        """One optimizer step over all parts.

        Their gradients add up, so each loss is divided by the number of parts.
        """
        self.wire.log.clear()
        batch = next(self.inputs)
        x = batch[: ROWS * self.parts]
        self.optimizer.zero_grad()
        for number, part in enumerate(x.split(ROWS)):
            last = number == self.parts - 1
            quiet = self.way == "no_sync" and not last
            talk = nullcontext()
            if quiet:
                talk = self.ddp_model.no_sync()
            with talk:  # around the forward pass, too
                output = self.ddp_model(part)
                loss = output.square().mean()
                loss = loss / self.parts
                loss.backward()  # the last one sends the sum of all
        self.optimizer.step()


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gbit", type=float, default=math.inf, help="a wire; else there is none")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    start(place)

    # Every way sees the same noise; ranks see different noise.
    torch.manual_seed(1 + place.rank)
    inputs = []
    for _ in range(SETTLE + args.rounds):
        batch = torch.randn(8 * ROWS, 512, device=place.device)
        inputs.append(batch)
    trainings: dict[str, Training] = {}
    for parts in (4, 8):
        for way in ("every part", "no_sync"):
            name = f"{parts} parts, {way}"
            trainings[name] = Training(way, parts, inputs, place, args.gbit)

    steps = {name: training.step for name, training in trainings.items()}
    times = in_turns(steps, args.rounds, place.device, settle=SETTLE, before=dist.barrier)

    alone = network(place)
    alone(inputs[-1]).square().mean().backward()  # nobody averages what this rank's rows give
    rows = []
    for name, training in trainings.items():
        usual = trainings[f"{training.parts} parts, every part"]
        gap = 0.0  # of the usual way to itself
        if training is not usual:
            own = gradients(training.ddp_model)
            gap = apart(own, gradients(usual.ddp_model), gradients(alone))
        sent = [message["bytes"] for message in training.wire.log]
        row = {
            "way": training.way,
            "parts": training.parts,
            "seconds": times[name],
            "calls": len(sent),
            "bytes": sum(sent),
            "gap": gap,
        }
        rows.append(row)
        if place.rank == 0:
            mebibytes = row["bytes"] / 2**20
            messages = f"all-reduces: {row['calls']}, {mebibytes:.1f} MiB"
            milliseconds = 1000 * median(times[name])
            print(f"{name:20} {messages:27} {milliseconds:6.1f} ms, off by {gap:.1e}")
    report("accumulate", place, rows=rows)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
