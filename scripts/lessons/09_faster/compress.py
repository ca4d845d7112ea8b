"""Fewer bytes: gradients in 16 bits, gradients of low rank, and weights that are averaged now and then.

Run:  torchrun --standalone --nproc-per-node=2 compress.py --steps 64
"""

import argparse
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report

HOOKS = {"fp32": default_hooks.allreduce_hook, "fp16": default_hooks.fp16_compress_hook}
# By its own name DDP refuses bf16's where torch was built without nccl. But gloo adds bf16, too.
HOOKS |= {"bf16": lambda _, bucket: default_hooks.bf16_compress_hook(None, bucket), "PowerSGD": powerSGD_hook}


def network(place: Place, width: int = 1024) -> nn.Sequential:
    """x (N, 64) → ten scores each (N, 10); the same start on every rank."""
    torch.manual_seed(0)
    layers = [nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)]
    return nn.Sequential(*layers).to(place.device)


def wrapped(way: str, model: nn.Module, start: int) -> nn.Module:
    """The model in DDP with this way's hook; PowerSGD sends whole gradients until step `start`."""
    # One bucket: PowerSGD sends more from callbacks, and those of several buckets may cross on gloo.
    ddp_model = DistributedDataParallel(model, bucket_cap_mb=25, gradient_as_bucket_view=True)
    low_rank = PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=start)
    ddp_model.register_comm_hook(low_rank if way == "PowerSGD" else None, HOOKS[way])
    return ddp_model


def data(pictures: int, place: Place) -> tuple[Tensor, Tensor]:
    """x (N, 64) and labels (N,) that a small network of fixed random weights gives; the same on every rank."""
    rng = torch.Generator().manual_seed(1)
    first, second, x = (torch.randn(*size, generator=rng) for size in [(64, 32), (32, 10), (pictures, 64)])
    return x.to(place.device), ((x @ first).relu() @ second).argmax(1).to(place.device)


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--every", type=int, default=8, help="steps between two averages of local SGD")
    args, place = parser.parse_args(), here()
    nccl = place.device if place.backend == "nccl" else None  # tells a barrier which GPU is meant
    dist.init_process_group(place.backend, timeout=timedelta(seconds=60), device_id=nccl)
    models = {way: network(place) for way in [*HOOKS, "local SGD"]}
    runs = models | {way: wrapped(way, models[way], start=max(2, args.steps // 10)) for way in HOOKS}
    optimizers = {way: torch.optim.SGD(model.parameters(), 0.05, momentum=0.9) for way, model in models.items()}
    x, y = data(64 * place.world_size * args.steps + 2000, place)
    sent, really = [], dist.all_reduce

    def noted(tensor: Tensor, *args, **options):
        sent.append(tensor.nbytes)
        return really(tensor, *args, **options)

    rows = {way: {"seconds": [], "bytes": []} for way in models}
    dist.all_reduce = noted  # the hooks call it by this name, too
    for step in range(args.steps):
        mine = slice(begin := 64 * (step * place.world_size + place.rank), begin + 64)
        for way, run in runs.items():
            sent.clear()
            dist.barrier()  # who trains alone for some steps must not hold up the next one
            start = time.perf_counter()
            optimizers[way].zero_grad()
            (loss := nn.functional.cross_entropy(run(x[mine]), y[mine])).backward()
            optimizers[way].step()
            if way == "local SGD" and (step + 1) % args.every == 0:
                flat = nn.utils.parameters_to_vector(run.parameters()).detach() / place.world_size
                dist.all_reduce(flat)
                nn.utils.vector_to_parameters(flat, run.parameters())
            loss.item()  # waits for the GPU
            rows[way]["seconds"].append(time.perf_counter() - start)
            rows[way]["bytes"].append(sum(sent))

    guess = y[-2000:].bincount().max().item() / 2000  # always naming the commonest label
    for way, row in rows.items():
        row["accuracy"] = (models[way](x[-2000:]).argmax(1) == y[-2000:]).float().mean().item()
        late = row["seconds"][-4 * args.every :]  # whole rounds of local SGD, and PowerSGD at work
        row["ms"], row["mib"] = 1000 * sum(late) / len(late), sum(row["bytes"]) / args.steps / 2**20
        if place.rank == 0:
            print(f"{way:10} {row['mib']:6.2f} MiB a step {row['ms']:7.1f} ms, {row['accuracy']:.1%} right")
    report("compress", place, rows=rows, every=args.every, guess=guess)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
