"""DDP on a backend of our own: are the weights those of gloo, and those of one process?

Run:  python alike.py
      torchrun --standalone --nproc-per-node=4 alike.py
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector

from devices import here, keep_group, report, start
from ownbackends import on_cpu, register
from tiny import loss_of, network, update
from yardstick import apart

LIMIT = timedelta(seconds=60)  # new_group's own would be 30 minutes
STEPS = 20
SIZE = 10_000  # numbers in a tensor that is added up
SAMPLE = slice(None, None, 100)  # of which the notebook gets every hundredth


def train(group: dist.ProcessGroup, rank: int) -> Tensor:
    """The weights after training under DDP, as one row of numbers."""
    model = network()
    ddp_model = DistributedDataParallel(model, process_group=group)
    for step in range(STEPS):
        loss_of(ddp_model, step, rank).backward()
        update(model)
    return parameters_to_vector(model.parameters()).detach()


def train_alone(ranks: int) -> Tensor:
    """The same in one process, which adds the ranks' gradients in rank order."""
    model = network()
    for step in range(STEPS):
        totals = None
        for rank in range(ranks):
            model.zero_grad()
            loss_of(model, step, rank).backward()
            # DDP, too, multiplies by one over the number of ranks before it adds.
            shares = [parameter.grad * (1 / ranks) for parameter in model.parameters()]
            if totals is None:
                totals = shares
            else:
                totals = [total + share for total, share in zip(totals, shares, strict=True)]
        for parameter, total in zip(model.parameters(), totals, strict=True):
            parameter.grad = total
        update(model)
    return parameters_to_vector(model.parameters()).detach()


def add_up(numbers: Tensor, group: dist.ProcessGroup, pieces: int = 1) -> Tensor:
    """The sum over the ranks of a group, in one all-reduce or in several."""
    total = numbers.clone()
    for piece in total.chunk(pieces):
        dist.all_reduce(piece, group=group)
    return total


def mean(tensor: Tensor, group: dist.ProcessGroup) -> None:
    """The mean over the ranks of a group, in place. Our backend has no AVG."""
    # BEGIN SOLUTION
    dist.all_reduce(tensor, group=group)
    tensor /= dist.get_world_size(group)
    # STUB dist.all_reduce(tensor, group=group)
    # END SOLUTION


def compare(gloo: dist.ProcessGroup, ours: dist.ProcessGroup, rank: int) -> dict:
    """How the two backends differ on the ranks of these groups."""
    ranks = dist.get_world_size(ours)
    parts = []
    for number in range(ranks):
        generator = torch.Generator().manual_seed(number)
        parts.append(torch.randn(SIZE, generator=generator))
    own = parts[rank]
    gloo_weights = train(gloo, rank)
    our_weights = train(ours, rank)
    gloo_sum = add_up(own, gloo)
    our_sum = add_up(own, ours)
    gloo_halves = add_up(own, gloo, 2)
    our_halves = add_up(own, ours, 2)
    average = own.clone()
    mean(average, ours)

    untrained = parameters_to_vector(network().parameters())
    in_reverse = our_sum.flip(0)
    halves = {"gloo": apart(gloo_halves, gloo_sum, in_reverse) == 0}
    halves["ours"] = apart(our_halves, our_sum, in_reverse) == 0
    return {
        "alone": apart(our_weights, train_alone(ranks), untrained) == 0,
        "gap": apart(our_weights, gloo_weights, untrained),
        "halves": halves,
        "parts": [part[SAMPLE].tolist() for part in parts],
        "sums": {"gloo": gloo_sum[SAMPLE].tolist(), "ours": our_sum[SAMPLE].tolist()},
        "mean": apart(average, our_sum / ranks, in_reverse),
    }


@record
def main() -> None:
    torch.set_num_threads(1)
    place = on_cpu(here(), register("nearby"))
    start(place)
    runs = {}
    fewest = min(2, place.world_size)
    for ranks in range(fewest, place.world_size + 1):
        members = list(range(ranks))
        gloo = dist.new_group(members, LIMIT, "gloo")
        ours = dist.new_group(members, LIMIT, place.backend)
        keep_group(gloo)
        keep_group(ours)
        if place.rank < ranks:
            runs[ranks] = compare(gloo, ours, place.rank)
    if place.rank == 0:
        counts = ", ".join(map(str, runs))
        print(f"{place.backend} beside gloo, on {counts} ranks")
    report("alike", place, runs=runs)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
