"""One model split over the ranks: activations go forward, gradients back. Is it the whole model?

Run:  python split.py
      torchrun --standalone --nproc-per-node=2 split.py
"""

import argparse
import copy
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report, start
from yardstick import apart

LAYERS = 6  # of each rank


class Stage:
    """One rank's part of a model: behind the part of rank - 1, before the part of rank + 1."""

    def __init__(self, layers: nn.Sequential, place: Place):
        self.layers = layers
        self.place = place
        self.is_first = place.rank == 0
        self.is_last = place.rank == place.world_size - 1
        # gloo sends from a CPU to a CPU only.
        self.channel = place.device if place.backend == "nccl" else torch.device("cpu")
        # Of the newest step: seconds when its forward and backward began and ended; bytes it sent.
        self.spans: dict[str, list[float]] = {}
        self.sent: list[int] = []

    def send(self, tensor: Tensor, rank: int) -> None:
        self.sent.append(tensor.nbytes)
        message = tensor.detach().to(self.channel)
        dist.send(message, rank)

    def receive(self, rank: int, like: Tensor) -> Tensor:
        tensor = torch.empty_like(like, device=self.channel)
        dist.recv(tensor, rank)
        return tensor.to(self.place.device)

    @contextmanager
    def clocked(self, name: str) -> Iterator[None]:
        """Notes the span of what is done inside."""
        began = self.now()
        yield
        ended = self.now()
        self.spans[name] = [began, ended]

    def now(self) -> float:
        torch.get_device_module(self.place.device).synchronize()  # a GPU may still be at work
        return time.perf_counter()

    def step(self, batch: Tensor, target: Tensor) -> None:
        """Leave in `layers` the gradients of this part. All layers are as wide as the batch is."""
        self.sent.clear()
        rank = self.place.rank
        x = batch
        if not self.is_first:
            x = self.receive(rank - 1, like=batch)
            x.requires_grad_()
        with self.clocked("forward"):
            output = self.layers(x)

        if self.is_last:
            loss = nn.functional.mse_loss(output, target)
            with self.clocked("backward"):
                loss.backward()
        else:
            self.send(output, rank + 1)
            gradient = self.receive(rank + 1, like=output)
            with self.clocked("backward"):
                output.backward(gradient)
        if not self.is_first:
            self.send(x.grad, rank - 1)


def network(width: int, layers: int) -> nn.Sequential:
    """(N, width) → (N, width), alternately linear and tanh."""
    modules = []
    for _ in range(layers // 2):
        linear = nn.Linear(width, width)
        modules += [linear, nn.Tanh()]
    return nn.Sequential(*modules)


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--width", type=int, default=256)
    args = parser.parse_args()
    place = here()
    # On GPUs all messages of a pair go one after the other, which is what we want: no warning.
    os.environ["TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING"] = "false"
    start(place)

    # Every rank has the whole model, to compare; a real one may be too large for one rank.
    torch.manual_seed(0)
    whole = network(args.width, LAYERS * place.world_size)
    whole.to(place.device, torch.float64)
    first = LAYERS * place.rank
    own = whole[first : first + LAYERS]
    stage = Stage(copy.deepcopy(own), place)
    shape = (2, args.batch_size, args.width)
    pair = torch.randn(shape, dtype=torch.float64)
    batch, target = pair.to(place.device)
    parameters = [*stage.layers.parameters(), *whole.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)

    gaps = []
    for _ in range(3):
        optimizer.zero_grad()
        expected = whole(batch)
        whole_loss = nn.functional.mse_loss(expected, target)
        whole_loss.backward()
        dist.barrier()  # the ranks begin together
        stage.step(batch, target)
        ours = [parameter.grad for parameter in stage.layers.parameters()]
        theirs = [parameter.grad for parameter in own.parameters()]
        nothing = [0 * gradient for gradient in theirs]
        gaps.append(apart(ours, theirs, wrong=nothing))
        optimizer.step()

    largest = max(gaps)
    equal = f"gradients within {largest:.0e} of the whole model's"
    print(f"rank {place.rank}: {equal}, bytes sent: {stage.sent}\n", end="")
    weights = sum(parameter.nbytes for parameter in whole.parameters())
    report("split", place, gap=largest, spans=stage.spans, sent=stage.sent, weights=weights)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
