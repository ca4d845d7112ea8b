"""The five collectives, each before and after, on tensors of a few numbers.

Run:  python collectives.py                                              # one process
      torchrun --standalone --nproc-per-node=3 collectives.py            # three ranks
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


def exchange(own: Tensor, piece: Tensor) -> dict[str, Tensor]:
    """What each collective leaves on this rank.

    own: (world_size,), this rank's numbers; piece: (1,), one of them. Both stay as they are.
    """
    # The first three write their result over what a rank brings, so each gets a copy.
    copied = own.clone()
    dist.broadcast(copied, src=0)  # one to all

    reduced = own.clone()
    dist.reduce(reduced, dst=0)  # all to one

    summed = own.clone()
    dist.all_reduce(summed)  # all to all

    # These two change the size, so the result needs a tensor of its own.
    gathered = torch.empty_like(own)
    dist.all_gather_into_tensor(gathered, piece)

    scattered = torch.empty_like(piece)
    dist.reduce_scatter_tensor(scattered, own)

    # What reduce-scatter left, put together on every rank.
    together = torch.empty_like(own)
    dist.all_gather_into_tensor(together, scattered)

    return {
        "broadcast": copied,
        "reduce": reduced,
        "all-reduce": summed,
        "all-gather": gathered,
        "reduce-scatter": scattered,
        "reduce-scatter, all-gather": together,
    }


@record
def main() -> None:
    place = here()
    limit = timedelta(seconds=60)
    dist.init_process_group(place.backend, timeout=limit, device_id=place.bound)
    # gloo carries messages where ranks share a GPU or have none: then we stay in main memory.
    device = torch.device("cpu")
    if place.backend == "nccl":
        device = place.device

    # Rank 0 has 1, 10, 100; rank 1 has 2, 20, 200; …
    powers = 10 ** torch.arange(place.world_size, device=device)
    own = 2**place.rank * powers
    piece = own[place.rank : place.rank + 1].clone()  # one number of these
    tensors = exchange(own, piece)
    after = {name: tensor.tolist() for name, tensor in tensors.items()}

    print(f"rank {place.rank} began with {own.tolist()}\n", end="")
    report("collectives", place, own=own.tolist(), piece=piece.tolist(), after=after)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
