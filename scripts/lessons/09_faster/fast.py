"""The recipe: everything that paid, in one program. Accuracy against seconds of training.

Run:  python fast.py --epochs 4
      torchrun --standalone --nproc-per-node=2 fast.py --epochs 4
"""

import argparse
import time
from collections.abc import Iterator
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from cifar10 import load
from devices import Place, here, report
from dtypes import best_dtype, units
from loader import augment, normalise
from model import ResNet

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def batches(x: Tensor, y: Tensor, size: int, epoch: int, place: Place) -> Iterator[tuple[Tensor, Tensor]]:
    """This rank's share of one epoch, already on its device: x (N, 3, 32, 32) uint8, y (N,); no batch is partial."""
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(epoch))  # the same on all ranks
    mine = order[place.rank :: place.world_size].to(x.device)
    for at in mine[: len(y) // (size * place.world_size) * size].split(size):
        yield normalise(augment(x[at])), y[at]


@torch.no_grad()
def evaluate(model: nn.Module, x: Tensor, y: Tensor, flip: bool, cast: torch.autocast, place: Place) -> float:
    """Accuracy over the whole test set, of which each rank takes its share; `flip`: with mirror images, averaged."""
    model.eval()
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)  # each rank's BatchNorm has statistics of its own
    right = torch.zeros((), dtype=torch.int64, device=place.device)
    mine = slice(place.rank, None, place.world_size)
    for pictures, labels in zip(x[mine].split(500), y[mine].split(500), strict=True):
        with cast:
            scores = model(pictures := normalise(pictures))
            if flip:
                scores = scores + model(pictures.flip(3))
        right += (scores.argmax(1) == labels).sum()
    dist.all_reduce(right)
    model.train()
    return right.item() / len(y)


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--global-batch-size", type=int, default=256, help="pictures in one optimizer step")
    parser.add_argument("--lr", type=float, default=0.4, help="learning rate at its peak")
    parser.add_argument("--widths", default="32,64,64", help="channels; on a GPU try 64,128,256")
    parser.add_argument("--train-size", type=int, help="use only the first so many pictures")
    parser.add_argument("--compile", action="store_true", help="pays when a training lasts minutes")
    parser.add_argument("--flip", action="store_true", help="test with mirror images, too")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=60, help="seconds that a rank waits for the others")
    args, place = parser.parse_args(), here()
    if args.global_batch_size % place.world_size:
        raise ValueError(f"{place.world_size} ranks cannot share a global batch of {args.global_batch_size} equally")
    rank, _, world_size, device, backend = place
    size = args.global_batch_size // world_size
    dist.init_process_group(backend, timeout=timedelta(seconds=args.timeout))

    (x, y, source), (test_x, test_y, _) = load(train=True, size=args.train_size), load(train=False)
    x, y, test_x, test_y = (tensor.to(device) for tensor in (x, y, test_x, test_y))  # once, a byte a colour
    steps = args.epochs * (len(y) // (size * world_size)) or parser.error("no epoch, or not one whole batch")

    torch.manual_seed(args.seed)
    model = ResNet(tuple(map(int, args.widths.split(",")))).to(device, memory_format=torch.channels_last)
    ddp_model = DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)
    ddp_model.broadcast_buffers = False  # as an argument it has another name in newer torch
    run = torch.compile(ddp_model) if args.compile else ddp_model
    torch.manual_seed(args.seed + rank)  # from here on, every rank draws random numbers of its own
    dtype, reason = best_dtype(units(device))
    cast = torch.autocast(device.type, DTYPES[dtype], enabled=dtype != "fp32")
    scaler = torch.amp.GradScaler(device.type, enabled=dtype == "fp16")
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, 0.9, weight_decay=5e-4, nesterov=True, fused=True)
    # One cycle of the learning rate, up for 30 % of the steps and then down; momentum goes .95 → .85 → .95 against it.
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=steps, anneal_strategy="linear")

    def synchronize() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    trained, curve = 0.0, []
    for epoch in range(args.epochs):
        start = time.perf_counter()
        for pictures, labels in batches(x, y, size, 1000 * args.seed + epoch, place):
            optimizer.zero_grad()
            with cast:
                loss = criterion(run(pictures), labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
        synchronize()
        trained += time.perf_counter() - start  # with compiling, without testing
        curve.append({"seconds": trained, "accuracy": evaluate(model, test_x, test_y, args.flip, cast, place)})
        if rank == 0:
            print(f"epoch {epoch + 1}: {curve[-1]['accuracy']:.1%} right after {trained:.1f} s of training, {dtype}")
    pace = steps * size * world_size / trained
    if rank == 0:
        print(f"{source}: {pace:,.0f} pictures a second")
    report("fast", place, data=source, curve=curve, pace=pace, dtype=dtype, reason=reason, flip=args.flip)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
