"""When does DDP talk? A profiler trace of one training step, with many small buckets and with one for everything.

Run:  torchrun --standalone --nproc-per-node=2 timeline.py
"""

import argparse
import os
import time
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

PHASES = ["forward", "backward", "step"]


def trace(bucket_mb: float, batch_size: int, place: Place) -> dict[str, list[tuple[float, float]]]:
    """Begin and end, in ms from the step's begin, of its phases and of every all-reduce; the last of six steps."""
    model = ResNet().to(place.device, memory_format=torch.channels_last)
    ddp_model = DistributedDataParallel(model, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(batch_size, 3, 32, 32).to(place.device, memory_format=torch.channels_last)
    y = torch.randint(10, (batch_size,)).to(place.device)

    synchronize = torch.cuda.synchronize if place.device.type == "cuda" else lambda: None

    def step() -> None:
        optimizer.zero_grad()
        with record_function("forward"):
            loss = torch.nn.functional.cross_entropy(ddp_model(x), y)
            synchronize()  # on a GPU, a phase ends when its kernels have
        with record_function("backward"):
            loss.backward()
            synchronize()
        with record_function("step"):
            optimizer.step()
            synchronize()

    for _ in range(5):  # DDP puts its buckets in order after the first step
        step()
    kinds = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (place.device.type == "cuda")
    with profile(activities=kinds, acc_events=True) as profiler:  # one cycle: there is nothing to clear
        step()
        time.sleep(0.1)  # on torch 2.10, gloo's thread notes its last all-reduce a moment after the message
    events, cpu = profiler.events(), DeviceType.CPU
    spans = {name: [e.time_range for e in events if (e.name, e.device_type) == (name, cpu)] for name in PHASES}
    talk = ("gloo:all_reduce", "ncclDevKernel_AllReduce")  # in threads of gloo's, or on the GPU
    spans["all-reduce"] = [e.time_range for e in events if e.name.startswith(talk)]
    begin = spans["forward"][0].start
    return {name: [((t.start - begin) / 1e3, (t.end - begin) / 1e3) for t in times] for name, times in spans.items()}


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=64, help="pictures a rank")
    parser.add_argument("--small", type=float, default=0.1, help="MiB in a bucket")
    parser.add_argument("--large", type=float, default=25, help="MiB in a bucket: DDP's default")
    parser.add_argument("--timeout", type=float, default=60)
    args, place = parser.parse_args(), here()
    dist.init_process_group(place.backend, timeout=timedelta(seconds=args.timeout))

    traces = {name: trace(getattr(args, name), args.batch_size, place) for name in ("small", "large")}
    if place.rank == 0:
        for name, spans in traces.items():
            talk = [end - begin for begin, end in spans["all-reduce"]]
            print(f"buckets of {getattr(args, name)} MiB: {len(talk)} all-reduces, {sum(talk):.1f} ms in all")
    report("timeline", place, **traces)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
