"""When does DDP talk? A profiler's trace of one step, with many small buckets and with a large one.

Run:  torchrun --standalone --nproc-per-node=2 timeline.py
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Else the profiler reports on itself, and that there is no GPU.
os.environ.setdefault("KINETO_LOG_LEVEL", "6")

import torch
import torch.distributed as dist
from torch.autograd import DeviceType
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function

from devices import Place, here, report, start
from model import ResNet

Spans = dict[str, list[tuple[float, float]]]  # name → begin and end in ms, each time

# What the profiler calls an all-reduce: gloo's work in a thread of the CPU, and nccl's kernel on a
# GPU. If the tensors are on a GPU, gloo's name appears there, too, for its copies.
GLOO = "gloo:all_reduce"
NCCL = "ncclDevKernel_AllReduce"


@contextmanager
def phase(name: str, place: Place) -> Iterator[None]:
    """A phase of the step, for the trace. On a GPU it ends when the kernels have ended."""
    with record_function(name):
        yield
        if place.device.type == "cuda":
            torch.cuda.current_stream().synchronize()  # nccl sends in a stream of its own


def trace(step: Callable[[], None], phases: list[str], place: Place) -> Spans:
    """Begin and end, in ms, of each phase and of every all-reduce in the last of six steps."""
    for _ in range(5):  # DDP puts its buckets in order after the first step
        step()
    kinds = [ProfilerActivity.CPU]
    if place.device.type == "cuda":
        kinds.append(ProfilerActivity.CUDA)
    with profile(activities=kinds, acc_events=True) as profiler:  # one cycle: nothing to clear
        dist.barrier()  # both ranks begin together, else the first all-reduce waits for the later
        step()
        time.sleep(0.1)  # on torch 2.10, gloo's thread notes its last all-reduce a moment later

    spans: Spans = {name: [] for name in [*phases, "all-reduce"]}
    for event in profiler.events():
        span = (event.time_range.start / 1e3, event.time_range.end / 1e3)  # microseconds → ms
        on_cpu = event.device_type == DeviceType.CPU
        if event.name in phases and on_cpu:
            spans[event.name].append(span)
        elif event.name.startswith(GLOO if on_cpu else NCCL):
            spans["all-reduce"].append(span)
    zero, _ = spans[phases[0]][0]
    # A barrier may be an all-reduce, too: that one began before the first phase.
    all_reduces = [span for span in spans["all-reduce"] if span[0] > zero]
    spans["all-reduce"] = sorted(all_reduces)
    since_zero = {}
    for name, own in spans.items():
        since_zero[name] = [(begin - zero, end - zero) for begin, end in own]
    return since_zero


def training(bucket_mb: float | None, batch_size: int, place: Place) -> Callable[[], None]:
    """One training step of the course's ResNet under DDP, on pictures of noise.

    `bucket_mb` None is DDP's default: a first bucket of 1 MiB, the others of 25 MiB.
    """
    model = ResNet().to(place.device, memory_format=torch.channels_last)
    ddp_model = DistributedDataParallel(model, bucket_cap_mb=bucket_mb)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(batch_size, 3, 32, 32)
    y = torch.randint(10, (batch_size,))
    x = x.to(place.device, memory_format=torch.channels_last)
    y = y.to(place.device)

    def step() -> None:
        optimizer.zero_grad()
        with phase("forward", place):
            output = ddp_model(x)
            loss = torch.nn.functional.cross_entropy(output, y)
        with phase("backward", place):
            loss.backward()
        with phase("step", place):
            optimizer.step()

    return step


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=64, help="pictures a rank")
    parser.add_argument("--small", type=float, default=0.1, help="MiB in a bucket")
    parser.add_argument("--large", type=float, help="MiB in a bucket; left out: DDP's default")
    args = parser.parse_args()
    start(place)

    buckets = {"small": args.small, "large": args.large}
    traces = {}
    for name, mib in buckets.items():
        step = training(mib, args.batch_size, place)
        traces[name] = trace(step, ["forward", "backward", "step"], place)

    if place.rank == 0:
        for name, spans in traces.items():
            sent = [end - begin for begin, end in spans["all-reduce"]]
            total = f"{len(sent)} × all-reduce, {sum(sent):.1f} ms in all"
            print(f"{name} buckets: {total}")
    report("timeline", place, **traces)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
