"""More ranks than there are: a wire on which every message takes as long as in a ring of n ranks.

Run:  torchrun --standalone --nproc-per-node=2 many.py --ranks 2,4,8
"""

import argparse
import time
from statistics import median

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report, start
from stopwatch import in_turns
from wire import Training, Wire, gradients, network
from yardstick import apart


class Ring(Wire):
    """The wire as one rank of a ring of `ranks` sees it: piece by piece, round after round."""

    def __init__(self, ranks: int, place: Place, gbit: float, latency: float):
        super().__init__(place, gbit, latency)
        self.ranks = ranks

    def transmit(self, size: int) -> None:
        piece = size / self.ranks
        bits = 8 * piece
        bits_a_second = 1e9 * self.gbit
        seconds = self.latency + bits / bits_a_second
        pieces = self.ranks - 1  # that come by in one round
        for _ in range(2):  # once around to add up, and once more to hand out the sums
            for _ in range(pieces):
                time.sleep(seconds)


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", default="2,4,8", help="of the rings, with commas between")
    parser.add_argument("--buckets", default="25,1", help="MiB in a bucket, with commas between")
    parser.add_argument("--gbit", type=float, default=1, help="10⁹ bits a second")
    parser.add_argument("--latency-ms", type=float, default=0.5, help="of each piece")
    parser.add_argument("--rows", type=int, default=256, help="of one rank in one step")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    start(place)

    # Two ranks train; the wire is as slow as if there were more.
    latency = args.latency_ms / 1000
    trainings = {}
    steps = {}
    for ranks in args.ranks.split(","):
        for mb in args.buckets.split(","):
            wire = Ring(int(ranks), place, args.gbit, latency)
            training = Training(float(mb), wire, args.rows, place)
            trainings[ranks, mb] = training
            steps[ranks, mb] = training.step
    in_turns(steps, args.rounds, place.device, settle=2, before=dist.barrier)

    # The gradients must be the same whatever the buckets and the wire are.
    first, *others = trainings.values()
    averaged = gradients(first.ddp_model)
    alone = network(place)
    alone(first.x).square().mean().backward()  # what this rank's rows give before anyone averages
    wrong = gradients(alone)
    gaps = [apart(gradients(other.ddp_model), averaged, wrong) for other in others]

    rows = []
    for (ranks, mb), training in trainings.items():
        traces = training.traces[-args.rounds :]
        sizes = traces[-1]["bytes"]  # of the messages in the last step
        messages = len(sizes)
        seconds = [trace["step"] for trace in traces]
        row = {"ranks": int(ranks), "mb": mb, "messages": messages}
        row["seconds"] = seconds
        row["bytes"] = sum(sizes)
        rows.append(row)
        if place.rank == 0:
            milliseconds = 1000 * median(seconds)
            print(f"{ranks} ranks, {messages} × all-reduce: {milliseconds:.0f} ms a step")
    report("many", place, rows=rows, gap=max(gaps, default=0.0))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
