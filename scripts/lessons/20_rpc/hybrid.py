"""An embedding table on a server, the layers behind it on trainers under DDP: one backward pass.

Rank 0 holds the table, every other rank is a trainer.

Run:  python hybrid.py
      torchrun --standalone --nproc-per-node=3 hybrid.py
"""

import threading

import torch
import torch.distributed as dist
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD

from devices import Place, here, keep_group, report, start
from workers import join
from yardstick import apart

LR = 0.1
STEPS = 20
tables = []  # of this rank: the one table, on rank 0
lock = threading.Lock()


def table() -> nn.EmbeddingBag:
    torch.manual_seed(1)
    return nn.EmbeddingBag(50, 8, mode="sum").double()


def head() -> nn.Linear:
    torch.manual_seed(2)
    return nn.Linear(8, 4).double()


def batch(step: int, trainer: int) -> tuple[Tensor, Tensor]:
    """16 bags of 3 words, and their classes."""
    generator = torch.Generator().manual_seed(100 * step + trainer)
    words = torch.randint(50, (16, 3), generator=generator)
    classes = words.sum(1) % 4
    return words, classes


def look_up(words: Tensor) -> Tensor:
    """Runs on the server."""
    return tables[0](words)


def descend(context: int) -> None:
    """Runs on any worker: one step of SGD with what this context holds for its own weights."""
    with lock, torch.no_grad():
        gradients = dist_autograd.get_gradients(context)
        for weight, gradient in gradients.items():
            weight -= LR * gradient


def table_weights() -> Tensor:
    return tables[0].weight.detach()


def train(place: Place, trainer: int, group: dist.ProcessGroup) -> tuple[Tensor, dict]:
    """The head's weights at the end, and where the gradients were after a backward pass."""
    model = DistributedDataParallel(head(), process_group=group)
    told = {}
    for step in range(STEPS):
        words, classes = batch(step, trainer)
        with dist_autograd.context() as context:
            embedded = rpc.rpc_sync("worker0", look_up, (words,))
            logits = model(embedded)
            loss = cross_entropy(logits, classes)
            dist_autograd.backward(context, [loss])  # goes on in the server
            in_grad = [weight.grad is not None for weight in model.parameters()]
            told["in .grad"] = sum(in_grad)
            told["in the context"] = len(dist_autograd.get_gradients(context))

            dist.barrier(group)  # all have looked up: DDP's all-reduce has waited for that already
            for worker in {"worker0", f"worker{place.rank}"}:
                rpc.rpc_sync(worker, descend, (context,))
            dist.barrier(group)  # nobody looks up before all have changed it
    return model.module.weight.detach(), told


def alone(trainers: int) -> tuple[Tensor, Tensor]:
    """One process: the head gets the mean of the trainers' gradients, the table their sum."""
    whole = nn.Sequential(table(), head())
    optimizer = SGD(whole.parameters(), LR)
    for step in range(STEPS):
        optimizer.zero_grad()
        for trainer in range(trainers):
            words, classes = batch(step, trainer)
            loss = cross_entropy(whole(words), classes)
            loss.backward()
        for weight in whole[1].parameters():
            weight.grad /= trainers
        optimizer.step()
    table_weight = whole[0].weight.detach()
    head_weight = whole[1].weight.detach()
    return table_weight, head_weight


@record
def main() -> None:
    place = here(gpus=0)  # CUDA tensors and dist autograd do not go together
    ranks = list(range(1, place.world_size)) or [0]
    if place.rank == 0:
        tables.append(table())
    join(place)
    start(place)
    group = dist.new_group(ranks)
    keep_group(group)
    told = {}
    if place.rank in ranks:
        trainer = place.rank - ranks[0]
        own_head, told = train(place, trainer, group)
        dist.barrier(group)
        right_table, right_head = alone(len(ranks))
        told["head gap"] = apart(own_head, right_head, head().weight)
        own_table = rpc.rpc_sync("worker0", table_weights)
        told["table gap"] = apart(own_table, right_table, right_table.flip(0))
    report("hybrid", place, **told)
    rpc.shutdown()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
