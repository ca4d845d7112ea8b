"""Fewer bytes: gradients in 16 bits or of low rank, and weights that are averaged now and then.

Run:  torchrun --standalone --nproc-per-node=2 compress.py --steps 64
"""

import argparse
from functools import partial
from statistics import mean
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report, start
from stopwatch import seconds

BATCH = 64  # rows of one rank in one step
TEST = 2000  # rows at the end of the data, on which nobody trains


def bf16_hook(_: None, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """Gradients in bf16. By its own name DDP refuses it where torch was built without nccl."""
    return default_hooks.bf16_compress_hook(None, bucket)


HOOKS = {
    "fp32": default_hooks.allreduce_hook,
    "fp16": default_hooks.fp16_compress_hook,
    "bf16": bf16_hook,
    "PowerSGD": powerSGD_hook,
}
LOCAL = "local SGD"  # no hook: every rank trains alone, and now and then they average their weights


def network(place: Place, width: int = 1024) -> nn.Sequential:
    """x (N, 64) → ten scores each (N, 10); the same start on every rank."""
    torch.manual_seed(0)
    layers = [nn.Linear(64, width), nn.ReLU()]
    layers += [nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)]
    return nn.Sequential(*layers).to(place.device)


def wrapped(way: str, model: nn.Module, settled: int) -> nn.Module:
    """The model in DDP with this way's hook. Until step `settled`, PowerSGD sends all it has."""
    # One bucket: PowerSGD sends more from callbacks; those of several buckets may cross on gloo.
    ddp_model = DistributedDataParallel(model, bucket_cap_mb=25, gradient_as_bucket_view=True)
    state = None
    if way == "PowerSGD":
        state = PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=settled)
    ddp_model.register_comm_hook(state, HOOKS[way])
    return ddp_model


def data(rows: int, place: Place) -> tuple[Tensor, Tensor]:
    """x (N, 64) and labels (N,) that a small random network gives; the same on every rank."""
    rng = torch.Generator().manual_seed(1)
    first = torch.randn(64, 32, generator=rng)
    second = torch.randn(32, 10, generator=rng)
    x = torch.randn(rows, 64, generator=rng)
    scores = (x @ first).relu() @ second
    labels = scores.argmax(1)
    return x.to(place.device), labels.to(place.device)


def own_rows(number: int, place: Place) -> slice:
    """Which rows this rank trains on in this step: others than any rank has in any other step."""
    begin = BATCH * (number * place.world_size + place.rank)
    return slice(begin, begin + BATCH)


class Training:
    """One network and one way to exchange what it learns. `every`: steps between two averages."""

    def __init__(self, way: str, settled: int, every: int, place: Place):
        self.way = way
        self.every = every
        self.model = network(place)
        self.run = self.model
        if way != LOCAL:
            self.run = wrapped(way, self.model, settled)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.05, momentum=0.9)

    def step(self, number: int, x: Tensor, y: Tensor) -> None:
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.run(x), y)
        loss.backward()
        self.optimizer.step()
        if self.way == LOCAL and (number + 1) % self.every == 0:
            self.average()

    @torch.no_grad()
    def average(self) -> None:
        """Give every rank the mean of all ranks' weights."""
        parameters = list(self.model.parameters())
        flat = nn.utils.parameters_to_vector(parameters) / dist.get_world_size()
        dist.all_reduce(flat)
        nn.utils.vector_to_parameters(flat, parameters)

    @torch.no_grad()
    def accuracy(self, x: Tensor, y: Tensor) -> float:
        right = self.model(x).argmax(1) == y
        return right.float().mean().item()


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--every", type=int, default=8, help="steps between averages of local SGD")
    args = parser.parse_args()
    start(place)
    settled = max(2, args.steps // 10)
    trainings = {way: Training(way, settled, args.every, place) for way in [*HOOKS, LOCAL]}
    x, y = data(BATCH * place.world_size * args.steps + TEST, place)

    # One step of each way in turn. The stand-in for all_reduce notes every call, also the hooks'.
    rows = {way: {"seconds": [], "bytes": []} for way in trainings}
    with patch.object(dist, "all_reduce", wraps=dist.all_reduce) as all_reduce:
        for number in range(args.steps):
            mine = own_rows(number, place)
            for way, training in trainings.items():
                step = partial(training.step, number, x[mine], y[mine])
                all_reduce.reset_mock()
                dist.barrier()  # who trains alone for some steps must not hold up the next one
                rows[way]["seconds"].append(seconds(step, place.device))
                sent = [call.args[0].nbytes for call in all_reduce.call_args_list]
                rows[way]["bytes"].append(sum(sent))

    test_x, test_y = x[-TEST:], y[-TEST:]
    for way, row in rows.items():
        row["accuracy"] = trainings[way].accuracy(test_x, test_y)
        # Time and bytes of the same steps: whole rounds of local SGD, with PowerSGD at work.
        first = settled + (args.steps - settled) % args.every
        starts = range(first, args.steps, args.every)
        row["ms"] = [1000 * mean(row["seconds"][at : at + args.every]) for at in starts]
        row["mib"] = mean(row["bytes"][first:]) / 2**20
        if place.rank == 0:
            cost = f"{row['mib']:7.3f} MiB a step {mean(row['ms']):7.1f} ms"
            print(f"{way:10} {cost}, {row['accuracy']:.1%} right")
    guess = test_y.bincount().max().item() / TEST  # always naming the commonest label
    report("compress", place, rows=rows, guess=guess, tested=TEST)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
