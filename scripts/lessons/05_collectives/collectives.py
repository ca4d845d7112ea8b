"""The five collectives, each before and after, on tensors of a few numbers.

Run:  python collectives.py                                              # one process
      torchrun --standalone --nproc-per-node=3 collectives.py            # three ranks
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


@record
def main() -> None:
    place = rank, _, world_size, device, backend = here()
    dist.init_process_group(backend, timeout=timedelta(seconds=60))
    if backend == "gloo":
        device = torch.device("cpu")  # where ranks share a GPU, or have none

    own = 2**rank * 10 ** torch.arange(world_size, device=device)  # rank 0: 1, 10, 100; rank 1: 2, 20, 200; …
    piece = own[rank : rank + 1].clone()  # one number of these

    sent = own.clone()
    dist.broadcast(sent, src=0)  # one to all
    reduced = own.clone()
    dist.reduce(reduced, dst=0)  # all to one
    summed = own.clone()
    dist.all_reduce(summed)  # all to all: in place, as the two above
    gathered = torch.empty_like(own)
    dist.all_gather_into_tensor(gathered, piece)
    scattered = torch.empty_like(piece)
    dist.reduce_scatter_tensor(scattered, own)

    again = torch.empty_like(own)
    dist.all_gather_into_tensor(again, scattered)  # what reduce-scatter left, put together on every rank

    before = {"own": own.tolist(), "piece": piece.tolist()}
    after = {"broadcast": sent, "reduce": reduced, "all-reduce": summed}
    after |= {"all-gather": gathered, "reduce-scatter": scattered, "reduce-scatter, all-gather": again}
    print(f"rank {rank} began with {own.tolist()}\n", end="")
    report("collectives", place, **before, after={name: tensor.tolist() for name, tensor in after.items()})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
