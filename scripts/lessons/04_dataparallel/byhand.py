"""nn.DataParallel by hand: copies of one model, each with a part of the batch, in threads. Is it still the plain model?

Run:  python byhand.py
      torchrun --standalone --nproc-per-node=1 byhand.py     # with two GPUs: a copy on each
"""

import copy
from concurrent.futures import ThreadPoolExecutor
from threading import current_thread

import torch
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


class Network(nn.Module):
    """(N, 12) → (N, 10). It counts its calls, and notes the thread that called."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 10))
        self.calls, self.thread = 0, ""

    def forward(self, x: Tensor) -> Tensor:
        self.calls, self.thread = self.calls + 1, current_thread().name
        return self.layers(x)


def places(copies: int) -> list[torch.device]:
    """A device for each copy: one GPU after the other, or the CPU every time."""
    gpus = torch.cuda.device_count()
    return [torch.device("cuda", n % gpus) if gpus else torch.device("cpu") for n in range(copies)]


def replicate(model: nn.Module, devices: list[torch.device]) -> list[nn.Module]:
    """A new object a device. Its tensors are computed from the model's own, so autograd knows the way back to them."""
    own, replicas = [*model.parameters(), *model.buffers()], []
    for number, device in enumerate(devices):  # the first one shares the model's memory, the others get copies
        theirs = [t.view_as(t) if number == 0 else t.to(device, copy=True) for t in own]
        replicas.append(copy.deepcopy(model, {id(old): new for old, new in zip(own, theirs, strict=True)}))
    return replicas


def scatter(x: Tensor, devices: list[torch.device]) -> list[Tensor]:
    return [part.to(device) for part, device in zip(x.chunk(len(devices)), devices, strict=False)]


def parallel_apply(replicas: list[nn.Module], parts: list[Tensor]) -> list[Tensor]:
    """Each copy in a thread of its own; the outputs in the order of the copies, whoever is done first."""
    futures = [ThreadPoolExecutor(1).submit(*pair) for pair in zip(replicas, parts, strict=False)]
    return [future.result() for future in futures]


def gather(outputs: list[Tensor], device: torch.device) -> Tensor:
    return torch.cat([output.to(device) for output in outputs])


@record
def main() -> None:
    place, devices = here(), places(2)
    torch.manual_seed(0)
    model = Network().to(devices[0], torch.float64)
    plain = copy.deepcopy(model)
    x, y = torch.randn(7, 12).to(devices[0], torch.float64), torch.arange(7, device=devices[0])
    optimizer = torch.optim.SGD([*model.parameters(), *plain.parameters()], lr=0.5)

    gaps, made = [], []
    for _ in range(3):
        optimizer.zero_grad()
        replicas = replicate(model, devices)
        parts = scatter(x, devices)
        outputs = parallel_apply(replicas, parts)
        scores = gather(outputs, devices[0])
        loss = nn.functional.cross_entropy(scores, y)  # of the whole batch, on the first device alone
        for replica in replicas:
            replica.layers[0].weight.retain_grad()  # only to look at: autograd drops what it merely passes on
        loss.backward()

        expected = plain(x)
        nn.functional.cross_entropy(expected, y).backward()
        pairs = [(p.grad, q.grad) for p, q in zip(model.parameters(), plain.parameters(), strict=True)]
        gaps += [(ours - theirs).abs().max().item() for ours, theirs in [(scores, expected), *pairs]]
        made += replicas
        optimizer.step()

    threads, sizes = [replica.thread for replica in replicas], [len(part) for part in parts]
    first, second, own = (network.layers[0].weight.grad[0, 0].item() for network in (*replicas, model))
    print(f"replicate: on {', '.join(map(str, devices))}; scatter: {len(x)} rows become {sizes}; apply: in {threads}")
    print(f"one gradient: {first:+.5f} of one copy, {second:+.5f} of the other, {own:+.5f} in the model")
    print(f"three steps: at most {max(gaps):.0e} from the plain model; calls counted: {model.calls} and {plain.calls}")
    chunks = {rows: [len(part) for part in scatter(torch.zeros(rows), places(4))] for rows in (10, 6, 3)}
    numbers = {"sizes": sizes, "threads": threads, "gradients": [first, second, own], "gap": max(gaps)}
    report("byhand", place, **numbers, objects=len(set(made)), calls=model.calls, chunks=chunks)


if __name__ == "__main__":
    main()
