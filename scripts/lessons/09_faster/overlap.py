"""What does our own DDP hide behind backward? A profiler trace with one bucket, and with two.

Run:  torchrun --standalone --nproc-per-node=2 overlap.py
"""

import argparse
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report, start
from hooks import Overlapping
from timeline import Spans, phase, trace
from wire import network

PHASES = ["forward", "backward", "waiting", "step"]


def training(bucket_mb: float, batch_size: int, place: Place) -> Callable[[], None]:
    """One training step of eight equal layers under our own DDP, on noise."""
    model = Overlapping(network(place), bucket_mb)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(batch_size, 512, device=place.device)

    def step() -> None:
        model.zero_grad()
        with phase("forward", place):
            output = model(x)
            loss = output.square().mean()
        with phase("backward", place):
            loss.backward()
        with phase("waiting", place):
            model.finish()
        with phase("step", place):
            optimizer.step()

    return step


def lengths(traces: list[Spans], name: str) -> str:
    """How many ms a phase took: the shortest and the longest of some traces."""
    spans = [trace[name][0] for trace in traces]
    times = [end - begin for begin, end in spans]
    return f"{name} {min(times):.1f} – {max(times):.1f} ms"


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=64, help="rows a rank")
    sizes = "MiB, with commas between: 4 is half of the network"
    parser.add_argument("--buckets", default="25,4", help=sizes)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    start(place)

    steps = {}
    traces: dict[str, list[Spans]] = {}
    for mb in args.buckets.split(","):
        steps[mb] = training(float(mb), args.batch_size, place)
        traces[mb] = []
    sizes = list(steps)
    for _ in range(args.rounds):
        for mb in sizes:
            spans = trace(steps[mb], PHASES, place)
            traces[mb].append(spans)
        sizes.reverse()  # every other round backwards, so that none always comes first

    if place.rank == 0:
        for mb, of_size in traces.items():
            backward = lengths(of_size, "backward")
            waiting = lengths(of_size, "waiting")
            print(f"buckets of {mb} MiB: {backward}, then {waiting}")
    report("overlap", place, traces=traces)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
