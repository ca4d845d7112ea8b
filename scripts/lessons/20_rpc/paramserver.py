"""A server holds the weights; trainers fetch them and bring gradients, together or each alone.

Rank 0 is the server, every other rank is a trainer. Rank 0 says what happens, by calls.

Run:  python paramserver.py
      torchrun --standalone --nproc-per-node=2 paramserver.py
      torchrun --standalone --nproc-per-node=3 paramserver.py
"""

import time
from argparse import ArgumentParser

import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD

from devices import here, keep_group, report, start
from weights import LR, Server, loss_of, network
from workers import join
from yardstick import apart


def train(rref: rpc.RRef, trainer: int, trainers: int, steps: int, pause: float, way: str) -> None:
    """Runs on a trainer: bring gradients until the server has made `steps` updates."""
    model = network()
    parameters = list(model.parameters())
    version = 0  # which weights these are
    step = 0
    while version < steps:
        loss = loss_of(model, step, trainer, trainers)
        gradients = torch.autograd.grad(loss, parameters)
        time.sleep(pause)
        if way == "synchronous":
            arguments = (rref, trainer, version, gradients)
            version, weights = rpc.rpc_sync(rref.owner(), Server.push_together, arguments)
        else:
            version, weights = rref.rpc_sync().push(trainer, version, gradients)
        with torch.no_grad():
            for own, new in zip(parameters, weights, strict=True):
                own.copy_(new)
        step += 1


def train_ddp(trainer: int, trainers: int, steps: int) -> list[Tensor]:
    """Runs on a trainer, without a server: DDP averages the gradients."""
    model = DistributedDataParallel(network(), process_group=groups[0])
    optimizer = SGD(model.parameters(), LR)
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, step, trainer, trainers)
        loss.backward()
        optimizer.step()
    return [weight.detach() for weight in model.parameters()]


groups = []  # of this rank: the process group of all trainers


@record
def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--pause", type=float, default=0.02, help="of the last trainer, in seconds")
    args = parser.parse_args()
    place = here(gpus=0)  # CUDA tensors and RRefs do not go together: all on the CPU
    join(place)
    start(place)
    ranks = list(range(1, place.world_size)) or [0]  # the trainers'; alone, rank 0 is both
    group = dist.new_group(ranks)
    keep_group(group)
    groups.append(group)
    dist.barrier()

    told = {}
    if place.rank == 0:
        names = [f"worker{rank}" for rank in ranks]
        count = len(names)
        finals = {}
        for way in ["synchronous", "asynchronous"]:
            server = Server(count)
            rref = rpc.RRef(server)
            began = time.perf_counter()
            futures = []
            for trainer, name in enumerate(names):
                pause = args.pause if trainer == count - 1 else 0.001
                arguments = (rref, trainer, count, args.steps, pause, way)
                futures.append(rpc.rpc_async(name, train, arguments))
            torch.futures.wait_all(futures)
            seconds = time.perf_counter() - began
            told[way] = {"pushes": server.pushes, "updates": server.version, "seconds": seconds}
            _, finals[way] = server.weights()

        futures = []
        for trainer, name in enumerate(names):
            arguments = (trainer, count, args.steps)
            futures.append(rpc.rpc_async(name, train_ddp, arguments))
        with_ddp = torch.futures.wait_all(futures)[0]
        untrained = list(network().parameters())
        gap = apart(finals["synchronous"], with_ddp, untrained)
        told["gap"] = gap
        print(f"the synchronous server's weights differ from DDP's by {gap}")
    report("paramserver", place, **told)
    rpc.shutdown()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
