"""What does our own DDP hide behind backward? A profiler trace with one bucket, and with two.

Run:  torchrun --standalone --nproc-per-node=2 overlap.py
"""

import argparse
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report, start
from hooks import Overlapping, network
from timeline import Spans, phase, trace

PHASES = ["forward", "backward", "waiting", "step"]


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


def step_begins(spans: Spans) -> float:
    """The ms after which the optimizer's step begins: forward, backward and waiting are over."""
    begin, _ = spans["step"][0]
    return begin


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=64, help="rows a rank")
    sizes = "MiB, with commas between: 4 is half of the network"
    parser.add_argument("--buckets", default="25,4", help=sizes)
    args = parser.parse_args()
    start(place)

    steps = {}
    traces: dict[str, list[Spans]] = {}
    for mb in args.buckets.split(","):
        steps[mb] = training(float(mb), args.batch_size, place)
        traces[mb] = []
    for _ in range(3):
        for mb, step in steps.items():
            traces[mb].append(trace(step, PHASES, place))
    quickest = {mb: min(spans, key=step_begins) for mb, spans in traces.items()}

    if place.rank == 0:
        for mb, spans in quickest.items():
            begin, back = spans["backward"][0]
            _, done = spans["waiting"][0]
            times = f"backward {back - begin:.1f} ms, then waiting {done - back:.1f} ms"
            print(f"buckets of {mb} MiB: {times}")
    report("overlap", place, traces=quickest)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
