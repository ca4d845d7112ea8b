"""A wire with a dial: messages as slow as you like. When does DDP send, and what does it wait for?

Run:  python wire.py
      torchrun --standalone --nproc-per-node=2 wire.py --gbit 1
"""

import argparse
import math
import threading
import time
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report, start
from stopwatch import in_turns

BUCKETS = [25, 4, 1]  # MiB: the network has eight layers of 1 MiB


class Wire:
    """A slow wire on top of the real all-reduce, one message at a time; nobody computes less."""

    def __init__(self, place: Place, gbit: float = math.inf, latency: float = 0):
        self.device = place.device
        self.on_gpu = place.device.type == "cuda"
        self.gbit = gbit  # a dial: 10⁹ bits a second
        self.latency = latency  # another: seconds of every message, however small it is
        self.free = threading.Lock()  # who holds it has the wire for itself
        self.log: list[dict[str, float]] = []  # of each message: bytes, and three moments

    def transmit(self, size: int) -> None:
        """Take as long as `size` bytes would take."""
        time.sleep(self.latency + 8 * size / (1e9 * self.gbit))

    def send(self, message: Tensor, work: dist.Work) -> torch.futures.Future[list[Tensor]]:
        """A future: the message, once it has crossed the wire. `work`: its real all-reduce."""
        devices = [self.device] if self.on_gpu else []
        future = torch.futures.Future(devices=devices)
        # A thread that sleeps needs no core, so meanwhile backward goes on.
        thread = threading.Thread(target=self.carry, args=(message, work, future))
        thread.start()
        return future

    def carry(self, message: Tensor, work: dist.Work, future: torch.futures.Future) -> None:
        """In a thread: wait for the real all-reduce, then for the wire, then for the bytes."""
        stream = torch.cuda.Stream(self.device) if self.on_gpu else None
        with torch.cuda.stream(stream):  # with None, on a CPU, this does nothing
            work.wait()
            if self.on_gpu:
                stream.synchronize()  # nccl's wait() holds up the stream, not this thread
            sent = {"bytes": message.nbytes, "ready": time.perf_counter()}
            with self.free:
                sent["begin"] = time.perf_counter()
                self.transmit(message.nbytes)
                sent["end"] = time.perf_counter()
            self.log.append(sent)
            future.set_result([message])


def hook(wire: Wire, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """For `register_comm_hook`: DDP gives a full bucket and takes a future of its mean."""
    mean = bucket.buffer().div_(dist.get_world_size())
    work = dist.all_reduce(mean, async_op=True)
    return wire.send(mean, work).then(lambda future: future.value()[0])


def network(place: Place, width: int = 512, depth: int = 8) -> nn.Sequential:
    """x (N, width) → (N, width); `depth` layers of width² weights, the same start on every rank."""
    torch.manual_seed(0)
    layers = []
    for _ in range(depth):
        layers.append(nn.Linear(width, width))
        layers.append(nn.ReLU())
    return nn.Sequential(*layers[:-1]).to(place.device)


def gradients(model: nn.Module) -> list[Tensor]:
    """Of all parameters. They tell more than weights, which hardly move in a few steps."""
    return [parameter.grad for parameter in model.parameters()]


class Training:
    """A network under DDP, which sends buckets of `mb` MiB over a wire; one step at a time."""

    def __init__(self, mb: float, wire: Wire, rows: int, place: Place):
        self.wire = wire
        self.synchronize = torch.get_device_module(place.device).synchronize
        self.ddp_model = DistributedDataParallel(network(place), bucket_cap_mb=mb)
        self.ddp_model.register_comm_hook(wire, hook)
        self.optimizer = torch.optim.SGD(self.ddp_model.parameters(), lr=0.01)
        torch.manual_seed(1 + place.rank)
        self.x = torch.randn(rows, 512, device=place.device)
        self.traces: list[dict] = []  # of each step: moments in seconds since it began

    def step(self) -> None:
        self.wire.log.clear()
        begin = time.perf_counter()
        self.optimizer.zero_grad()
        loss = self.ddp_model(self.x).square().mean()
        self.synchronize()
        forward = time.perf_counter()
        loss.backward()  # comes back when every bucket's future has its result
        self.synchronize()
        backward = time.perf_counter()
        self.optimizer.step()
        self.synchronize()
        stepped = time.perf_counter()
        trace = {"forward": forward - begin, "backward": backward - begin}
        trace["step"] = stepped - begin
        for name in ("ready", "begin", "end"):
            trace[name] = sorted(sent[name] - begin for sent in self.wire.log)
        trace["bytes"] = [sent["bytes"] for sent in self.wire.log]
        self.traces.append(trace)


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gbit", type=float, default=1, help="10⁹ bits a second")
    parser.add_argument("--latency-ms", type=float, default=0.5, help="of each message")
    parser.add_argument("--rows", type=int, default=512, help="of one rank in one step")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    start(place)

    # The same network with large and with small buckets, each on a wire of its own, in turns.
    trainings = {}
    for mb in BUCKETS:
        wire = Wire(place, args.gbit, args.latency_ms / 1000)
        trainings[mb] = Training(mb, wire, args.rows, place)
    steps = {mb: training.step for mb, training in trainings.items()}
    seconds = in_turns(steps, args.rounds, place.device, settle=2, before=dist.barrier)

    traces = {}
    for mb, training in trainings.items():
        traces[mb] = training.traces[-args.rounds :]
        if place.rank == 0:
            print(f"buckets of {mb} MiB: {1000 * median(seconds[mb]):.0f} ms a step")
    report("wire", place, traces=traces)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
