"""A step of DataParallel by hand: how many bytes go to each copy, come from it, and stay with it?

Run:  python traffic.py
      torchrun --standalone --nproc-per-node=1 traffic.py
"""

import argparse
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

import byhand
from devices import here, report
from model import ResNet


def nbytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def count(copies: int, batch_size: int) -> list[dict[str, int]]:
    """A step of the course's network, by hand: bytes that go to each copy, come from it, stay."""
    devices = byhand.places(copies)
    model = ResNet().to(devices[0])
    x = torch.randn(batch_size, 3, 32, 32)
    x = x.to(devices[0])
    y = torch.randint(10, (batch_size,))
    y = y.to(devices[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    # The step of byhand.py. Autograd would drop the gradients of copies: here they are counted.
    parts = byhand.scatter(x, devices)
    replicas = byhand.replicate(model, devices)
    outputs = byhand.parallel_apply(replicas, parts)
    scores = byhand.gather(outputs, devices[0])
    loss = nn.functional.cross_entropy(scores, y)
    for replica, output in zip(replicas, outputs, strict=True):
        output.retain_grad()
        for parameter in replica.parameters():
            parameter.retain_grad()
    loss.backward()
    optimizer.step()

    # All of this travels to or from a copy; for the first copy, on the model's own device.
    counts = []
    triples = zip(replicas, parts, outputs, strict=True)
    for replica, part, output in triples:
        weights = nbytes(replica.parameters())
        buffers = nbytes(replica.buffers())
        sizes = {"weights": weights, "buffers": buffers}
        sizes |= {"inputs": part.nbytes, "outputs": output.nbytes}
        sizes["gradients"] = nbytes(byhand.gradients(replica))
        sizes["output gradients"] = output.grad.nbytes
        counts.append(sizes)
    # Only the device of the model needs what the optimizer remembers.
    states = optimizer.state.values()
    momenta = [state["momentum_buffer"] for state in states]
    counts[0]["optimizer"] = nbytes(momenta)
    return counts


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=128)
    args = parser.parse_args()
    place = here()

    # The same batch in two parts, then in four: as if each part had a device of its own.
    counts = []
    for copies in (2, 4):
        per_copy = count(copies, args.batch_size)
        counts.append(per_copy)
        first = per_copy[0]
        sizes = []
        for kind in ("weights", "inputs", "outputs"):
            sizes.append(f"{first[kind]:,} bytes of {kind}")
        print(f"{copies} copies, each with", ", ".join(sizes))
    report("traffic", place, counts=counts)


if __name__ == "__main__":
    main()
