"""When does DDP talk? A profiler trace of one training step, with many small buckets and with one for everything.

Run:  torchrun --standalone --nproc-per-node=2 timeline.py
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else the profiler reports on itself, and that there is no GPU

import torch
import torch.distributed as dist
from torch.autograd import DeviceType
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function

from devices import Place, here, report
from model import ResNet

Spans = dict[str, list[tuple[float, float]]]


@contextmanager
def phase(name: str, place: Place) -> Iterator[None]:
    """A phase of the step, for the trace. On a GPU it ends when the kernels that it waits for have ended."""
    with record_function(name):
        yield
        if place.device.type == "cuda":
            torch.cuda.current_stream().synchronize()  # nccl sends in a stream of its own


def trace(step: Callable[[], None], phases: list[str], place: Place) -> Spans:
    """Begin and end, in ms from the first phase on, of the phases and of every all-reduce, in the last of six steps."""
    for _ in range(5):  # DDP puts its buckets in order after the first step
        step()
    kinds = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (place.device.type == "cuda")
    with profile(activities=kinds, acc_events=True) as profiler:  # one cycle: there is nothing to clear
        dist.barrier()  # both ranks begin together, else the first all-reduce waits for the later one
        step()
        time.sleep(0.1)  # on torch 2.10, gloo's thread notes its last all-reduce a moment after the message
    events, cpu = profiler.events(), DeviceType.CPU
    spans = {name: [e.time_range for e in events if (e.name, e.device_type) == (name, cpu)] for name in phases}
    begin = spans[phases[0]][0].start
    talk = ("gloo:all_reduce", "ncclDevKernel_AllReduce")  # in threads of gloo's, or on the GPU
    sent = [e.time_range for e in events if e.name.startswith(talk) and e.time_range.start > begin]  # no barrier's
    spans["all-reduce"] = sorted(sent, key=lambda t: t.start)
    return {name: [((t.start - begin) / 1e3, (t.end - begin) / 1e3) for t in times] for name, times in spans.items()}


def training(bucket_mb: float, batch_size: int, place: Place) -> Callable[[], None]:
    """One training step of the course's ResNet under DDP, on pictures of noise."""
    model = ResNet().to(place.device, memory_format=torch.channels_last)
    ddp_model = DistributedDataParallel(model, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(batch_size, 3, 32, 32).to(place.device, memory_format=torch.channels_last)
    y = torch.randint(10, (batch_size,)).to(place.device)

    def step() -> None:
        optimizer.zero_grad()
        with phase("forward", place):
            loss = torch.nn.functional.cross_entropy(ddp_model(x), y)
        with phase("backward", place):
            loss.backward()
        with phase("step", place):
            optimizer.step()

    return step


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=64, help="pictures a rank")
    parser.add_argument("--small", type=float, default=0.1, help="MiB in a bucket")
    parser.add_argument("--large", type=float, default=25, help="MiB in a bucket: DDP's default")
    parser.add_argument("--timeout", type=float, default=60)
    args, place = parser.parse_args(), here()
    nccl = place.device if place.backend == "nccl" else None  # tells a barrier which GPU is meant
    dist.init_process_group(place.backend, timeout=timedelta(seconds=args.timeout), device_id=nccl)

    steps = {name: training(getattr(args, name), args.batch_size, place) for name in ("small", "large")}
    traces = {name: trace(step, ["forward", "backward", "step"], place) for name, step in steps.items()}
    if place.rank == 0:
        for name, spans in traces.items():
            talk = [end - begin for begin, end in spans["all-reduce"]]
            print(f"buckets of {getattr(args, name)} MiB: {len(talk)} all-reduces, {sum(talk):.1f} ms in all")
    report("timeline", place, **traces)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
