"""Does a shorter format learn as well? A small network from five seeds in each format; and what a network must keep.

Run:  python seedset.py --seeds 2
      torchrun --standalone --nproc-per-node=2 seedset.py --steps 120     # the ranks share the runs, and never talk
"""

import argparse
import time

import torch
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

from cifar10 import find, generate, load
from devices import Place, here, report
from dtypes import FORMATS
from loader import normalise
from model import ResNet


def pictures(train: int, test: int) -> tuple[dict[str, tuple[Tensor, Tensor]], str]:
    """`train` and `test`, pictures (N, 3, 32, 32) uint8 and labels (N,), and what they are. Never downloads."""
    if not find():
        return generate(train, test), "generated pictures"
    return {"train": load(True, train)[:2], "test": load(False, test)[:2]}, "CIFAR-10"


def shrink(x: Tensor, place: Place) -> Tensor:
    """Pictures (N, 3, 32, 32) uint8 → (N, 192): 8×8 points are enough here, and quick in fp16 without units for it."""
    return nn.functional.avg_pool2d(normalise(x.to(place.device)), 4).flatten(1)


def train(name: str, seed: int, data: dict[str, tuple[Tensor, Tensor]], steps: int, place: Place) -> dict[str, object]:
    """Train from one seed in one format: accuracy on the test set, seconds a step, the last scale of the loss."""
    torch.manual_seed(seed)  # the first weights and the order of the pictures are the same in every format
    layers = [nn.Linear(192, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)]
    model = nn.Sequential(*layers).to(place.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler(place.device.type, enabled=name == "fp16")
    autocast = torch.autocast(place.device.type, FORMATS[name], enabled=name != "fp32")
    (x, y), start = data["train"], time.perf_counter()
    for _ in range(steps):
        batch = torch.randint(len(y), (128,)).to(place.device)
        optimizer.zero_grad()
        with autocast:
            loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    loss.item()  # waits for a GPU
    seconds = (time.perf_counter() - start) / steps
    with torch.no_grad(), autocast:
        right = (model(data["test"][0]).argmax(1) == data["test"][1]).double().mean().item()
    return {"format": name, "seed": seed, "accuracy": right, "seconds": seconds, "scale": scaler.get_scale()}


def kept(name: str, x: Tensor, y: Tensor, place: Place) -> dict[str, object]:
    """Format and bytes of all that a forward pass of the course's ResNet keeps for backward; on a GPU also the peak."""
    model = ResNet().to(place.device, memory_format=torch.channels_last)
    weights, storages = {p.data_ptr() for p in model.parameters()}, {}
    x, y, on_gpu = normalise(x.to(place.device)), y.to(place.device), place.device.type == "cuda"

    def pack(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in weights:
            storage = tensor.untyped_storage()
            storages[storage.data_ptr()] = str(tensor.dtype).removeprefix("torch."), storage.nbytes()
        return tensor

    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with torch.autocast(place.device.type, FORMATS[name], enabled=name != "fp32"), hooks:
        loss = nn.functional.cross_entropy(model(x), y)
    if on_gpu:
        loss.backward()
    own = 3 * sum(p.numel() * p.element_size() for p in model.parameters())  # with gradients and momentum
    peak = torch.cuda.max_memory_allocated() - before if on_gpu else 0
    return {"saved": list(storages.values()), "own": own, "peak": peak}


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=120)
    args, place = parser.parse_args(), here()
    data, source = pictures(4096, 1999)
    x, y = (part[:64] for part in data["train"])
    data = {split: (shrink(x, place), y.to(place.device)) for split, (x, y) in data.items()}
    jobs = [(name, seed) for name in FORMATS for seed in range(args.seeds)]
    runs = [train(*job, data, args.steps, place) for job in jobs[place.rank :: place.world_size]]
    memory = {name: kept(name, x, y, place) for name in ("fp32", "fp16")}
    for run in runs:
        print(f"rank {place.rank}: {run['format']}, seed {run['seed']}: {100 * run['accuracy']:.1f} % right\n", end="")
    report("seedset", place, data=source, runs=runs, memory=memory, pictures=len(y))


if __name__ == "__main__":
    main()
