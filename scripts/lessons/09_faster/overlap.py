"""What does our own DDP hide behind backward? A profiler trace of one step with one bucket, and with two.

Run:  torchrun --standalone --nproc-per-node=2 overlap.py
"""

import argparse
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report
from hooks import Overlapping, network
from timeline import phase, trace


def training(bucket_mb: float, batch_size: int, place: Place) -> Callable[[], None]:
    """One training step of eight equal layers under our own DDP, on noise."""
    model = Overlapping(network(place), bucket_mb)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(batch_size, 512, device=place.device)

    def step() -> None:
        model.zero_grad()
        with phase("forward", place):
            loss = model(x).square().mean()
        with phase("backward", place):
            loss.backward()
        with phase("waiting", place):
            model.finish()
        with phase("step", place):
            optimizer.step()

    return step


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=64, help="rows a rank")
    parser.add_argument("--buckets", default="25,4", help="MiB, with commas between: 4 is half of the network")
    args, place = parser.parse_args(), here()
    nccl = place.device if place.backend == "nccl" else None  # tells a barrier which GPU is meant
    dist.init_process_group(place.backend, timeout=timedelta(seconds=60), device_id=nccl)

    steps = {mb: training(float(mb), args.batch_size, place) for mb in args.buckets.split(",")}
    phases = ["forward", "backward", "waiting", "step"]
    rounds = [{mb: trace(step, phases, place) for mb, step in steps.items()} for _ in range(3)]
    traces = {mb: min((one[mb] for one in rounds), key=lambda spans: spans["step"][0][1]) for mb in steps}  # quickest
    if place.rank == 0:
        for mb, spans in traces.items():
            (begin, back), (_, done) = spans["backward"][0], spans["waiting"][0]
            print(f"buckets of {mb} MiB: backward {back - begin:.1f} ms, then waiting {done - back:.1f} ms")
    report("overlap", place, traces=traces)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
