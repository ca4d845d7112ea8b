"""Trainings that PyTorch refuses as they begin: ranks that do not come, models that do not fit.

And what a first conversion to DDP is often told.

Run:  torchrun --standalone --nproc-per-node=2 refused.py
"""

from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from devices import here, keep_group, report, start
from loud import complaint

PATIENCE = timedelta(seconds=2)


def waiting() -> str:
    """A meeting point for three ranks, to which the other two do not come."""
    return complaint(lambda: dist.TCPStore("127.0.0.1", 0, 3, is_master=True, timeout=PATIENCE))


class Checkpointed(nn.Module):
    """A layer that backward computes again, with a backward pass of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.layer, x, use_reentrant=True)


def more_layers(rank: int) -> nn.Module:
    """Each rank has a layer more than the one before it."""
    layers = [nn.Linear(2, 2) for _ in range(1 + rank)]
    return nn.Sequential(*layers)


def wider(rank: int) -> nn.Module:
    """Each rank has as many layers, but the layer of the next rank is wider."""
    return nn.Linear(2, 2 + rank)


def wrap(build: Callable[[int], nn.Module], rank: int) -> None:
    """DDP around a model that each rank has built for itself, in a group of its own."""
    model = build(rank)
    group = dist.new_group(timeout=PATIENCE)
    keep_group(group)
    DistributedDataParallel(model, process_group=group)


def twice() -> None:
    """DDP looks for unused parameters, and the checkpoint has a backward pass of its own."""
    model = Checkpointed()
    ddp_model = DistributedDataParallel(model, find_unused_parameters=True)
    x = torch.ones(1, 2, requires_grad=True)
    output = ddp_model(x)
    output.sum().backward()


def shuffled() -> None:
    """The loader got a sampler, and shuffle=True was left beside it."""
    data = TensorDataset(torch.zeros(4, 1))
    sampler = DistributedSampler(data)
    DataLoader(data, shuffle=True, sampler=sampler)


def through_the_wrapper() -> None:
    """The wrapper is asked for a layer of the model."""
    ddp_model = DistributedDataParallel(Checkpointed())
    print(ddp_model.layer)


def one_gpu() -> None:
    """The GPU's number was copied, but the model is on the CPU."""
    DistributedDataParallel(Checkpointed(), device_ids=[0])


@record
def main() -> None:
    # gloo on the CPU everywhere: so the messages read the same with and without GPUs.
    place = here(gpus=0)
    messages = {"waiting": waiting()}
    start(place)
    messages["more layers"] = complaint(lambda: wrap(more_layers, place.rank))
    messages["wider"] = complaint(lambda: wrap(wider, place.rank))
    messages["twice"] = complaint(twice)
    first = {
        "shuffle": complaint(shuffled),
        "layer": complaint(through_the_wrapper),
        "device_ids": complaint(one_gpu),
    }
    dist.barrier()
    report("refused", place, told=messages, first=first)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
