"""When does compression pay? 32 bits, 16 bits and PowerSGD on wires from slow to fast.

Run:  torchrun --standalone --nproc-per-node=2 squeeze.py --gbit 0.5,1,2,4,8
"""

import argparse
import math
from functools import partial
from statistics import median
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.distributed.elastic.multiprocessing.errors import record
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report, start
from stopwatch import in_turns
from wire import Wire, network

HOOKS = {
    "32 bits": default_hooks.allreduce_hook,
    "16 bits": default_hooks.fp16_compress_hook,
    "PowerSGD": powerSGD_hook,
}
SETTLE = 3  # rounds that do not count: PowerSGD sends everything in its first two steps


ALL_REDUCE = dist.all_reduce  # the real one


class Sent:
    """What torch's hooks want to have from dist.all_reduce."""

    def __init__(self, future: Future[list[Tensor]]):
        self.future = future

    def get_future(self) -> Future[list[Tensor]]:
        return self.future


class Training:
    """A network under DDP with one of torch's hooks, whose all-reduces go over a wire."""

    def __init__(self, way: str, place: Place):
        self.wire = Wire(place)
        model = network(place)
        # One bucket: PowerSGD sends more from callbacks; those of several buckets may cross.
        self.ddp_model = DistributedDataParallel(model, bucket_cap_mb=25)
        state = None
        if way == "PowerSGD":
            state = PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
        self.ddp_model.register_comm_hook(state, HOOKS[way])
        torch.manual_seed(1 + place.rank)
        self.x = torch.randn(64, 512, device=place.device)

    def over_wire(self, message: Tensor, **options) -> Sent:
        """Stands in for dist.all_reduce, which torch's hooks call with `async_op=True`."""
        work = ALL_REDUCE(message, **options)
        future = self.wire.send(message, work)
        return Sent(future)

    def step(self, gbit: float) -> None:
        """Forward and backward, with the wire's dial at `gbit`."""
        self.wire.gbit = gbit
        self.wire.log.clear()
        self.ddp_model.zero_grad()
        output = self.ddp_model(self.x)
        loss = output.square().mean()
        with patch.object(dist, "all_reduce", self.over_wire):
            loss.backward()


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gbit", default="0.5,1,2,4,8", help="10⁹ bits a second")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    speeds = [float(gbit) for gbit in args.gbit.split(",")]
    start(place)

    # Every way to send on every wire, all in turns; and once with no wire but the real one.
    trainings = {way: Training(way, place) for way in HOOKS}
    steps = {}
    for gbit in [*speeds, math.inf]:
        for way, training in trainings.items():
            steps[way, gbit] = partial(training.step, gbit)
    seconds = in_turns(steps, args.rounds, place.device, settle=SETTLE, before=dist.barrier)

    ways = {}
    for way, training in trainings.items():
        log = training.wire.log  # of the last step
        sent = sum(message["bytes"] for message in log)
        free = seconds[way, math.inf]
        wired = [seconds[way, gbit] for gbit in speeds]
        ways[way] = {"bytes": sent, "wired": wired, "free": free}
        if place.rank == 0:
            mebibytes = sent / 2**20
            slow = 1000 * median(wired[0])
            unwired = 1000 * median(free)
            rest = f"{unwired:6.1f} ms without a wire"
            print(f"{way:9} {mebibytes:6.3f} MiB: {slow:6.1f} ms at {speeds[0]} Gbit/s, {rest}")
    report("squeeze", place, speeds=speeds, ways=ways)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
