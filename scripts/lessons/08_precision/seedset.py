"""Does a shorter format learn as well? Five seeds in each format; and what a network must keep.

Run:  python seedset.py --seeds 2
      torchrun --standalone --nproc-per-node=2 seedset.py     # ranks share the runs, and never talk
"""

import argparse
from itertools import product

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn import functional as F

from cifar10 import find, load
from devices import here, report
from dtypes import FORMATS
from loader import normalise
from model import ResNet
from shapes import generate

BATCH = 64  # pictures for which we count what is kept
Data = dict[str, tuple[Tensor, Tensor]]  # of `train` and `test`: pictures x, labels y (N,)


def pictures(train: int, test: int) -> tuple[Data, str]:
    """Pictures (N, 3, 32, 32) uint8 and labels (N,), and what they are. Never downloads."""
    if not find():
        return generate(train, test), "generated pictures"
    train_x, train_y, source = load(True, train)
    test_x, test_y, _ = load(False, test)
    data = {"train": (train_x, train_y), "test": (test_x, test_y)}
    return data, source


def shrink(x: Tensor, device: torch.device) -> Tensor:
    """Pictures (N, 3, 32, 32) uint8 → (N, 192), 8×8 points each: a small and quick task."""
    normalised = normalise(x.to(device))
    points = F.avg_pool2d(normalised, 4)
    return points.flatten(1)


def autocast(name: str, device: torch.device) -> torch.autocast:
    """Compute in the format of this name; in fp32 nothing is converted."""
    dtype = FORMATS[name]
    return torch.autocast(device.type, dtype, enabled=name != "fp32")


def network() -> nn.Sequential:
    """x (N, 192) → ten scores each (N, 10)."""
    first = [nn.Linear(192, 128), nn.ReLU()]
    second = [nn.Linear(128, 64), nn.ReLU()]
    last = nn.Linear(64, 10)
    return nn.Sequential(*first, *second, last)


def train(name: str, seed: int, data: Data, steps: int, device: torch.device) -> dict[str, object]:
    """One training, and its accuracy on the test set."""
    torch.manual_seed(seed)  # the same first weights and order of pictures in every format
    model = network().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = GradScaler(device.type, enabled=name == "fp16")

    x, y = data["train"]
    for _ in range(steps):
        chosen = torch.randint(len(y), (128,))
        chosen = chosen.to(device)
        batch_x = x[chosen]
        batch_y = y[chosen]
        optimizer.zero_grad()
        with autocast(name, device):
            scores = model(batch_x)
            loss = F.cross_entropy(scores, batch_y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    x, y = data["test"]
    with torch.no_grad(), autocast(name, device):
        scores = model(x)
    right = scores.argmax(1) == y
    accuracy = right.double().mean()
    return {"format": name, "seed": seed, "accuracy": accuracy.item()}


def kept(name: str, x: Tensor, y: Tensor, device: torch.device) -> dict[str, object]:
    """Format and bytes of all that a forward pass of our ResNet keeps for backward."""
    model = ResNet().to(device, memory_format=torch.channels_last)
    weights = {parameter.data_ptr() for parameter in model.parameters()}
    x = normalise(x.to(device))
    y = y.to(device)
    on_gpu = device.type == "cuda"
    storages: dict[int, tuple[str, int]] = {}  # by address, since two tensors may share one

    def pack(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in weights:  # the weights are there in any case
            storage = tensor.untyped_storage()
            dtype = str(tensor.dtype).removeprefix("torch.")
            storages[storage.data_ptr()] = (dtype, storage.nbytes())
        return tensor

    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    hooks = saved_tensors_hooks(pack, lambda tensor: tensor)
    with autocast(name, device), hooks:
        loss = F.cross_entropy(model(x), y)
    peak = 0  # measured on a GPU only
    if on_gpu:
        loss.backward()
        peak = torch.cuda.max_memory_allocated() - before
    return {"saved": list(storages.values()), "peak": peak}


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=120)
    args = parser.parse_args()
    place = here()

    # Small pictures for a small network, so that many trainings take a short time.
    whole, source = pictures(4096, 10_000)
    small = {}
    for split, (x, y) in whole.items():
        points = shrink(x, place.device)
        small[split] = (points, y.to(place.device))

    jobs = list(product(FORMATS, range(args.seeds)))  # the same seeds in every format
    own_jobs = jobs[place.rank :: place.world_size]  # each rank takes its share
    runs = []
    for name, seed in own_jobs:
        run = train(name, seed, small, args.steps, place.device)
        runs.append(run)
        percent = 100 * run["accuracy"]
        print(f"rank {place.rank}: {name}, seed {seed}: {percent:.1f} % right\n", end="")

    # What is kept for backward, however, is counted in our ResNet, for a batch of whole pictures.
    x, y = whole["train"]
    batch_x = x[:BATCH]
    batch_y = y[:BATCH]
    memory = {}
    for name in ("fp32", "fp16"):
        memory[name] = kept(name, batch_x, batch_y, place.device)
    report("seedset", place, data=source, runs=runs, memory=memory, pictures=BATCH)


if __name__ == "__main__":
    main()
