"""A few steps of lesson 09's programs on real ranks, for tests: what became of the weights.

Run:  torchrun --standalone --nproc-per-node=2 faster_parts.py     # where data/generated.pt is

Each rank leaves its tensors in `parts.rankN.pt`.
"""

from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

import accumulate
import compress
import fast
from devices import Place, here, start
from hooks import Overlapping
from loader import Pictures
from model import ResNet

compress.network = partial(compress.network, width=64)
fast.best_dtype = lambda has: ("fp32", "a test compares it with float64")


def gradient(model: nn.Module) -> Tensor:
    """All gradients, one after the other."""
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def accumulated(way: str, place: Place) -> Tensor:
    """The gradient of the second step, each of four parts."""
    torch.manual_seed(1 + place.rank)
    inputs = [torch.randn(4 * accumulate.ROWS, 512) for _ in range(2)]
    training = accumulate.Training(way, 4, inputs, place)
    for _ in inputs:
        training.step()
    return gradient(training.ddp_model)


def overlapped(place: Place) -> Tensor:
    """All weights after two steps under our own DDP, in two buckets, of which one is not full."""
    torch.manual_seed(place.rank)  # the ranks begin with weights of their own
    layers = [nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)]
    model = Overlapping(nn.Sequential(*layers).double(), bucket_mb=300 / 2**20)
    torch.manual_seed(10 + place.rank)
    for _ in range(2):
        x = torch.randn(7, 6, dtype=torch.float64)
        model.zero_grad()
        model(x).square().mean().backward()
        model.finish()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
    return parameters_to_vector(model.parameters()).detach()


def compressed(way: str, steps: int, place: Place) -> Tensor:
    """The mean gradient of many steps with the same weights and rows, the first two left out."""
    model = compress.network(place)
    ddp_model = compress.wrapped(way, model, settled=2)
    x, y = compress.data(2 * compress.BATCH, place)
    mine = slice(compress.BATCH * place.rank, compress.BATCH * (place.rank + 1))
    gradients = []
    for _ in range(2 + steps):
        ddp_model.zero_grad()
        nn.functional.cross_entropy(ddp_model(x[mine]), y[mine]).backward()
        gradients.append(gradient(model))
    return torch.stack(gradients[2:]).mean(0)


def apart(place: Place) -> Tensor:
    """All weights after six steps of local SGD, which averages them after every third."""
    training = compress.Training(compress.LOCAL, settled=2, every=3, place=place)
    x, y = compress.data(6 * 2 * compress.BATCH, place)
    for number in range(6):
        begin = compress.BATCH * (2 * number + place.rank)
        mine = slice(begin, begin + compress.BATCH)
        training.step(number, x[mine], y[mine])
    return parameters_to_vector(training.model.parameters()).detach()


def recipe(place: Place) -> dict[str, Tensor]:
    """The state of a model after two epochs of the recipe; and its share of right answers."""
    train_set = Pictures(True)
    test_set = Pictures(False)
    torch.manual_seed(0)
    model = ResNet((8, 8, 8)).to(memory_format=torch.channels_last)
    training = fast.Training(model, 0.1, steps=10, place=place)
    torch.manual_seed(1 + place.rank)
    for epoch in range(2):
        training.epoch(train_set, 8, epoch)
    accuracy = training.evaluate(test_set, flip=True)
    return model.state_dict() | {"accuracy": torch.tensor(accuracy, dtype=torch.float64)}


def main() -> None:
    place = here()
    start(place)
    parts = {
        "every part": accumulated("every part", place),
        "no_sync": accumulated("no_sync", place),
        "overlapped": overlapped(place),
        "fp16": compressed("fp16", 1, place),
        "bf16": compressed("bf16", 1, place),
        "PowerSGD": compressed("PowerSGD", 60, place),
        "local SGD": apart(place),
        "recipe": recipe(place),
    }
    torch.save(parts, f"parts.rank{place.rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
