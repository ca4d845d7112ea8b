"""Train one small ResNet on several ranks: each takes a part of every batch, DDP averages the gradients.

Run:  python ddp.py --epochs 2
      torchrun --standalone --nproc-per-node=2 ddp.py --epochs 2
"""

import argparse
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from devices import Place, here, report
from loader import Pictures, as_is, augment, normalise
from model import ResNet


@torch.no_grad()
def evaluate(model: torch.nn.Module, test_set: Pictures, place: Place) -> dict[str, float]:
    """Accuracy and mean loss over the whole test set, of which each rank takes its share, without padding."""
    model.eval()
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)  # BatchNorm's statistics differ between ranks after the last step
    totals = torch.zeros(3, dtype=torch.float64)  # correct, sum of the losses, pictures
    for x, y in test_set.batches(500, place.rank, place.world_size):
        output, y = model(normalise(x.to(place.device))), y.to(place.device)
        loss = torch.nn.functional.cross_entropy(output, y, reduction="sum")
        totals += torch.tensor([(output.argmax(1) == y).sum(), loss, len(y)])
    dist.all_reduce(totals := totals.to(place.device))
    correct, loss, count = totals.tolist()
    return {"correct": int(correct), "count": int(count), "accuracy": correct / count, "test_loss": loss / count}


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--global-batch-size", type=int, default=128, help="pictures in one optimizer step")
    parser.add_argument("--lr", type=float, default=0.2, help="learning rate at its peak")
    parser.add_argument("--train-size", type=int, help="use only the first so many pictures")
    parser.add_argument("--test-size", type=int)
    parser.add_argument("--workers", type=int, default=0, help="loader processes a rank")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=60, help="seconds that a rank waits for the others")
    args, place = parser.parse_args(), here()
    rank, _, world_size, device, backend = place
    if args.global_batch_size % world_size:
        raise ValueError(f"{world_size} ranks cannot share a global batch of {args.global_batch_size} equally")
    batch_size = args.global_batch_size // world_size
    dist.init_process_group(backend, timeout=timedelta(seconds=args.timeout))
    train_set, test_set = Pictures(True, args.train_size), Pictures(False, args.test_size)
    loading = {"num_workers": args.workers, "pin_memory": device.type == "cuda", "collate_fn": as_is, "drop_last": True}
    # BEGIN LIVE
    sampler = DistributedSampler(train_set, shuffle=True, seed=args.seed, drop_last=True)
    # STUB sampler = DistributedSampler(train_set, 1, 0)  # every rank is told that it is alone, and takes all pictures
    # END LIVE
    loader = DataLoader(train_set, batch_size, sampler=sampler, **loading)
    torch.manual_seed(args.seed)
    model = ResNet().to(device, memory_format=torch.channels_last)
    # BEGIN LIVE
    ddp_model = DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)
    # STUB ddp_model = model
    # END LIVE
    torch.manual_seed(args.seed + rank)  # from here on, every rank draws random numbers of its own
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=5e-4, nesterov=True)
    steps = args.epochs * len(loader) or parser.error("no epoch, or not one whole batch of pictures")
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=steps, anneal_strategy="linear")

    losses, weights, start = [], [], time.perf_counter()
    for epoch in range(args.epochs):
        # BEGIN LIVE
        sampler.set_epoch(epoch)
        # STUB # the sampler does not know which epoch this is
        # END LIVE
        model.train()
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            x = normalise(augment(x))
            weights.append(model.head.weight[0, 0].detach().clone())

            optimizer.zero_grad()
            output = ddp_model(x)
            loss = criterion(output, y)
            loss.backward()
            optimizer.step()

            scheduler.step()
            losses.append(loss.detach())
            if rank == 0 and len(losses) % max(1, steps // 8) == 0:
                pace = len(losses) * args.global_batch_size / (time.perf_counter() - start)
                print(f"epoch {epoch + 1}, step {len(losses)} of {steps}: loss {loss:.3f}, {pace:,.0f} pictures/s")
    losses, weights = torch.stack(losses).tolist(), torch.stack(weights).tolist()
    pace = steps * args.global_batch_size / (time.perf_counter() - start)

    scores = evaluate(model, test_set, place)
    if rank == 0:
        torch.save(model.state_dict(), "ddp.pt")  # the model itself, not its DDP wrapper: no `module.` in the names
        print(f"{train_set.source}: {scores['correct']:,} of {scores['count']:,} test pictures right")
    report("ddp", place, data=train_set.source, last=sampler.epoch, losses=losses, weights=weights, pace=pace, **scores)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
