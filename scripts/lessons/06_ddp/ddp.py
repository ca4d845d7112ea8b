"""Train one small ResNet on several ranks, each on its part of every batch; DDP averages gradients.

Run:  python ddp.py --epochs 2
      torchrun --standalone --nproc-per-node=2 ddp.py --epochs 2
"""

import time
from argparse import ArgumentParser, Namespace
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, DistributedSampler

from devices import Place, here, report
from loader import Pictures, augment, loading, normalise
from model import ResNet


def parse(doc: str) -> Namespace:
    """The options that the program was started with; `doc` is what `--help` begins with."""
    parser = ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--global-batch-size", type=int, default=128, help="pictures in one step")
    parser.add_argument("--lr", type=float, default=0.2, help="learning rate at its peak")
    parser.add_argument("--train-size", type=int, help="use only the first so many pictures")
    parser.add_argument("--test-size", type=int)
    parser.add_argument("--workers", type=int, default=0, help="loader processes a rank")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def train(model: ResNet, train_set: Pictures, args: Namespace, place: Place) -> dict:
    """Train the model; its loss and one of its weights at each step, and pictures a second."""
    # 3. My share: the sampler deals out the pictures, so that no two ranks take the same one.
    batch_size = args.global_batch_size // place.world_size
    # BEGIN LIVE
    sampler = DistributedSampler(train_set, shuffle=True, seed=args.seed, drop_last=True)
    # STUB # every rank is told that it is alone, and takes all pictures
    # STUB sampler = DistributedSampler(train_set, num_replicas=1, rank=0)
    # END LIVE
    options = loading(args.workers, place.device)
    loader = DataLoader(train_set, batch_size, sampler=sampler, **options)
    steps = args.epochs * len(loader)
    if steps == 0:
        raise ValueError("no epoch, or not one whole batch of pictures")

    # 4. Average: DDP copies rank 0's weights to all, then averages gradients during `backward`.
    # BEGIN LIVE
    ddp_model = DistributedDataParallel(model)
    # STUB ddp_model = model
    # END LIVE
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=5e-4, nesterov=True)
    # The learning rate rises from almost 0 to its peak, then falls back. Momentum stays at 0.9.
    cycle = {"anneal_strategy": "linear", "cycle_momentum": False}
    scheduler = OneCycleLR(optimizer, args.lr, total_steps=steps, **cycle)

    print_every = max(1, steps // 8)
    losses = []
    weights = []
    began = time.perf_counter()
    for epoch in range(args.epochs):  # 5. a new order in each
        # BEGIN LIVE
        sampler.set_epoch(epoch)
        # STUB # the sampler does not know which epoch this is
        # END LIVE
        model.train()
        for x, y in loader:
            x = x.to(place.device, non_blocking=True)
            y = y.to(place.device, non_blocking=True)
            x = normalise(augment(x))
            weight = model.head.weight[0, 0]
            weights.append(weight.detach().clone())

            optimizer.zero_grad()
            output = ddp_model(x)
            loss = criterion(output, y)
            loss.backward()
            optimizer.step()

            scheduler.step()
            losses.append(loss.detach())
            done = len(losses)
            if place.rank == 0 and done % print_every == 0:
                seconds = time.perf_counter() - began
                pace = done * args.global_batch_size / seconds
                progress = f"epoch {epoch + 1}, step {done} of {steps}"
                print(f"{progress}: loss {loss:.3f}, {pace:,.0f} pictures/s")

    # `tolist` waits for a GPU, so the clock is read after it.
    losses = torch.stack(losses).tolist()
    weights = torch.stack(weights).tolist()
    seconds = time.perf_counter() - began
    pace = steps * args.global_batch_size / seconds
    return {"losses": losses, "weights": weights, "pace": pace, "last": sampler.epoch}


@torch.no_grad()
def evaluate(model: nn.Module, test_set: Pictures, place: Place) -> dict[str, float]:
    """Accuracy and mean loss over the whole test set."""
    model.eval()
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)  # BatchNorm's statistics differ between ranks by now
    totals = torch.zeros(3, dtype=torch.float64)  # correct, sum of the losses, pictures
    for x, y in test_set.batches(500, place.rank, place.world_size):
        x = normalise(x.to(place.device))
        y = y.to(place.device)
        output = model(x)
        correct = (output.argmax(1) == y).sum()
        loss = nn.functional.cross_entropy(output, y, reduction="sum")
        totals += torch.tensor([correct, loss, len(y)])

    # Add first, divide afterwards: a mean of the ranks' means would be another number.
    totals = totals.to(place.device)
    dist.all_reduce(totals)
    correct, loss, count = totals.tolist()
    means = {"accuracy": correct / count, "test_loss": loss / count}
    return {"correct": int(correct), "count": int(count)} | means


@record
def main() -> None:
    place = here()  # 1. my GPU
    args = parse(__doc__)
    if args.global_batch_size % place.world_size:
        batch = f"a global batch of {args.global_batch_size}"
        raise ValueError(f"{place.world_size} ranks cannot share {batch} equally")
    limit = timedelta(seconds=60)  # 2. meet the others, within a minute
    dist.init_process_group(place.backend, timeout=limit, device_id=place.bound)

    train_set = Pictures(True, args.train_size)
    test_set = Pictures(False, args.test_size)

    # One seed for all: the ranks begin with the same weights.
    torch.manual_seed(args.seed)
    model = ResNet().to(place.device, memory_format=torch.channels_last)
    # From here on, every rank draws random numbers of its own.
    torch.manual_seed(args.seed + place.rank)

    history = train(model, train_set, args, place)
    scores = evaluate(model, test_set, place)
    if place.rank == 0:
        torch.save(model.state_dict(), "ddp.pt")  # 6. one rank saves, not the wrapper: no `module.`
        right = f"{scores['correct']:,} of {scores['count']:,} test pictures right"
        print(f"{train_set.source}: {right}")
    report("ddp", place, data=train_set.source, **history, **scores)
    dist.destroy_process_group()  # 7. say goodbye


if __name__ == "__main__":
    main()
