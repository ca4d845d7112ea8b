"""nn.DataParallel by hand: copies of a model, each with a part of the batch. Still the plain model?

Run:  python byhand.py
      torchrun --standalone --nproc-per-node=1 byhand.py     # with two GPUs: a copy on each
"""

import copy
from concurrent.futures import ThreadPoolExecutor
from threading import current_thread
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report
from yardstick import apart


class Network(nn.Module):
    """(N, 12) → (N, 10). It counts its calls, and notes the thread that called."""

    def __init__(self):
        super().__init__()
        first = nn.Linear(12, 32)
        last = nn.Linear(32, 10)
        self.layers = nn.Sequential(first, nn.Tanh(), last)
        self.calls = 0
        self.thread = ""

    def forward(self, x: Tensor) -> Tensor:
        self.calls = self.calls + 1
        self.thread = current_thread().name
        return self.layers(x)


def gradients(model: nn.Module) -> list[Tensor]:
    return [parameter.grad for parameter in model.parameters()]


def places(copies: int) -> list[torch.device]:
    """A device for each copy: one GPU after the other, or the CPU every time."""
    gpus = torch.cuda.device_count()
    if gpus == 0:
        return [torch.device("cpu")] * copies
    return [torch.device("cuda", number % gpus) for number in range(copies)]


def replicate(model: nn.Module, devices: list[torch.device]) -> list[nn.Module]:
    """A copy for each device. Its tensors are computed from the model's: autograd knows the way."""
    own = [*model.parameters(), *model.buffers()]
    replicas = []
    for number, device in enumerate(devices):
        replacements = {}
        for tensor in own:
            if number == 0:
                replacements[id(tensor)] = tensor.view_as(tensor)  # shares the model's memory
            else:
                replacements[id(tensor)] = tensor.to(device, copy=True)
        replicas.append(copy.deepcopy(model, replacements))
    return replicas


def scatter(x: Tensor, devices: list[torch.device]) -> list[Tensor]:
    """The rows of x in as many parts as there are devices, or fewer: one on each."""
    parts = x.chunk(len(devices))
    pairs = zip(parts, devices, strict=False)
    return [part.to(device) for part, device in pairs]


def parallel_apply(replicas: list[nn.Module], parts: list[Tensor]) -> list[Tensor]:
    """Each copy in a thread of its own; outputs in the order of copies, whoever is done first."""
    futures = []
    for replica, part in zip(replicas, parts, strict=False):
        thread = ThreadPoolExecutor(1)
        futures.append(thread.submit(replica, part))
    return [future.result() for future in futures]


def gather(outputs: list[Tensor], device: torch.device) -> Tensor:
    """All rows again, on one device."""
    return torch.cat([output.to(device) for output in outputs])


class Step(NamedTuple):
    replicas: list[nn.Module]
    parts: list[Tensor]
    scores: Tensor


def forward_backward(model: Network, x: Tensor, y: Tensor, devices: list[torch.device]) -> Step:
    """What DataParallel does with a batch x (N, 12), y (N,): leaves its gradients in `model`."""
    parts = scatter(x, devices)
    replicas = replicate(model, devices[: len(parts)])  # a device without rows needs no copy
    outputs = parallel_apply(replicas, parts)
    scores = gather(outputs, devices[0])
    loss = nn.functional.cross_entropy(scores, y)  # of the whole batch, on the first device alone
    for replica in replicas:
        # Only to look at: autograd drops the gradients that it merely passes on.
        replica.layers[0].weight.retain_grad()
    loss.backward()
    return Step(replicas, parts, scores)


@record
def main() -> None:
    place = here()
    devices = places(2)
    torch.manual_seed(0)
    model = Network().to(devices[0], torch.float64)
    plain = copy.deepcopy(model)
    x = torch.randn(7, 12).to(devices[0], torch.float64)
    y = torch.arange(7, device=devices[0])
    optimizer = torch.optim.SGD([*model.parameters(), *plain.parameters()], lr=0.5)

    # Three steps, each with the plain model as well, to compare.
    gaps = []
    replicas = []
    for _ in range(3):
        optimizer.zero_grad()
        step = forward_backward(model, x, y, devices)
        expected = plain(x)
        nn.functional.cross_entropy(expected, y).backward()
        ours = [step.scores, *gradients(model)]
        theirs = [expected, *gradients(plain)]
        gaps.append(apart(ours, theirs, wrong=[tensor.flip(0) for tensor in theirs]))
        replicas += step.replicas
        optimizer.step()

    gap = max(gaps)
    # What the last step did.
    sizes = [len(part) for part in step.parts]
    threads = [replica.thread for replica in step.replicas]
    samples = []
    for network in [*step.replicas, model]:
        gradient = network.layers[0].weight.grad
        samples.append(gradient[0, 0].item())
    first, second, own = samples
    names = ", ".join(map(str, devices))
    print(f"replicate: on {names}; scatter: {len(x)} rows become {sizes}; apply: in {threads}")
    shares = f"{first:+.5f} of one copy, {second:+.5f} of the other"
    print(f"one gradient: {shares}, {own:+.5f} in the model")
    calls = f"{model.calls} and {plain.calls}"
    print(f"three steps: at most {gap:.0e} from the plain model; calls counted: {calls}")

    # `chunk` rounds up: of six rows three devices get two each, and the fourth gets none.
    chunks = {}
    for rows in (10, 6, 3):
        chunks[rows] = [len(part) for part in scatter(torch.zeros(rows), places(4))]
    numbers = {"sizes": sizes, "threads": threads, "gradients": samples, "gap": gap}
    report("byhand", place, **numbers, objects=len(set(replicas)), calls=model.calls, chunks=chunks)


if __name__ == "__main__":
    main()
