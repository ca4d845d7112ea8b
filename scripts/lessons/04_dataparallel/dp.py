"""nn.DataParallel itself: what it does with two GPUs, with one and with none; and what each copy gets, gives and holds.

Run:  python dp.py
      torchrun --standalone --nproc-per-node=1 dp.py     # one process for all GPUs
"""

import argparse
import copy
import time

import torch
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

from byhand import Network, gather, parallel_apply, places, replicate, scatter
from devices import here, report
from model import ResNet

SEEN = []  # what every call got: a list outside of the model, since what is set on a copy goes with the copy


class Noting(Network):
    def forward(self, x: Tensor) -> Tensor:
        SEEN.append([str(x.device), *x.shape])
        return super().forward(x)


def count(copies: int, batch_size: int) -> list[dict[str, int]]:
    """One step of the course's network, by hand: the bytes that go to each copy, come from it, and stay."""
    devices, model = places(copies), ResNet()
    x, y = torch.randn(batch_size, 3, 32, 32).to(devices[0]), torch.randint(10, (batch_size,)).to(devices[0])
    optimizer = torch.optim.SGD(model.to(devices[0]).parameters(), lr=0.1, momentum=0.9)
    replicas, parts = replicate(model, devices), scatter(x, devices)
    outputs = parallel_apply(replicas, parts)
    for tensor in [*outputs, *(weight for replica in replicas for weight in replica.parameters())]:
        tensor.retain_grad()
    nn.functional.cross_entropy(gather(outputs, devices[0]), y).backward()
    optimizer.step()
    counts = []
    for replica, part, output in zip(replicas, parts, outputs, strict=True):
        kinds = {"weights": replica.parameters(), "buffers": replica.buffers(), "inputs": [part], "outputs": [output]}
        kinds |= {"gradients": [weight.grad for weight in replica.parameters()], "output gradients": [output.grad]}
        counts.append({kind: sum(tensor.nbytes for tensor in tensors) for kind, tensors in kinds.items()})
    counts[0]["optimizer"] = sum(state["momentum_buffer"].nbytes for state in optimizer.state.values())
    return counts


def pace(network: nn.Module, batch_size: int, steps: int, device: torch.device) -> float:
    """Pictures a second in training steps, after two to warm up."""
    x, y = torch.randn(batch_size, 3, 32, 32, device=device), torch.randint(10, (batch_size,), device=device)
    optimizer, ends = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9), []
    for _ in range(steps + 2):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
        for gpu in range(torch.cuda.device_count()):
            torch.cuda.synchronize(gpu)
        ends.append(time.perf_counter())
    return steps * batch_size / (ends[-1] - ends[1])


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--steps", type=int, default=3)
    args, place, gpus = parser.parse_args(), here(), torch.cuda.device_count()
    ids = [0] if gpus == 1 else [0, 1]  # two are asked for without any GPU, too: will it complain?
    device = place.device

    model, x = Noting().to(device, torch.float64), torch.randn(7, 5, 12).to(device, torch.float64)
    plain, shapes, gaps = copy.deepcopy(model), [], []
    for dim in (0, 1):
        SEEN.clear()
        parallel = nn.DataParallel(model, device_ids=ids, output_device=ids[-1], dim=dim)
        scores = parallel(x)
        shapes.append(sorted(SEEN))
        scores.square().mean().backward()
        plain(x).square().mean().backward()
        pairs = [(p.grad, q.grad) for p, q in zip(model.parameters(), plain.parameters(), strict=True)]
        gaps += [(a - b).abs().max().item() for a, b in [(scores.to(device), plain(x)), *pairs]]
    used = {"asked": ids, "used": parallel.device_ids, "output": str(scores.device)}
    print(f"asked for {ids}, uses {parallel.device_ids}; output on {scores.device}; calls counted: {model.calls}")
    print(f"dim=0 gives {shapes[0]}\ndim=1 gives {shapes[1]}")

    together = [pace(nn.DataParallel(ResNet().to(device), ids), size, args.steps, device) for size in args.batch_sizes]
    peaks = [torch.cuda.max_memory_allocated(gpu) for gpu in range(gpus)]  # while all GPUs are at work
    alone = [pace(ResNet().to(device), size, args.steps, device) for size in args.batch_sizes]
    for size, one, both in zip(args.batch_sizes, alone, together, strict=True):
        print(f"batches of {size}: {one:,.0f} pictures/s plain, {both:,.0f} with DataParallel")
    numbers = {"alone": alone, "together": together, "peaks": peaks, "counts": [count(2, 128), count(4, 128)]}
    report("dp", place, **used, shapes=shapes, gap=max(gaps), calls=model.calls, **numbers)


if __name__ == "__main__":
    main()
