"""Is DDP on parts of a batch the same as one process on the whole batch? Five optimizer steps of each, compared.

Run:  torchrun --standalone --nproc-per-node=2 equal.py
      torchrun --standalone --nproc-per-node=2 equal.py --norm batch
"""

import argparse
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import here, report


class Network(nn.Module):
    """x (N, 3, 8, 8) → (N, 10). `second` may share its weight with `first`, and `frozen` never learns."""

    def __init__(self, norm: str, tied: bool):
        super().__init__()
        self.frozen = nn.Conv2d(3, 8, 3).requires_grad_(False)
        self.first, self.second = nn.Conv2d(8, 8, 3), nn.Conv2d(8, 8, 3)
        if tied:
            self.second.weight = self.first.weight
        self.norm = {"group": nn.GroupNorm(4, 8), "batch": nn.BatchNorm2d(8), "none": nn.Identity()}[norm]
        self.head = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.second(self.norm(self.first(self.frozen(x).relu())).relu())
        return self.head(x.mean((2, 3)))


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--norm", choices=["group", "batch", "none"], default="group")
    parser.add_argument("--tied", action="store_true", help="two layers share one weight")
    parser.add_argument("--timeout", type=float, default=60)
    args = parser.parse_args()
    place = rank, _, world_size, device, backend = here()
    dist.init_process_group(backend, timeout=timedelta(seconds=args.timeout))

    torch.manual_seed(0)
    alone = Network(args.norm, args.tied).to(device, torch.float64)  # the same on every rank, trained on whole batches
    torch.manual_seed(rank)  # another start on every rank: DDP's first act is to copy rank 0's weights to all
    shared = Network(args.norm, args.tied).to(device, torch.float64)
    own_start = shared.first.weight.detach().clone()
    ddp_model = DistributedDataParallel(shared)
    replaced = not torch.equal(own_start, shared.first.weight)

    torch.manual_seed(1)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in (alone, ddp_model)]
    gaps = []
    for _ in range(5):
        x = torch.randn(12 * world_size, 3, 8, 8, dtype=torch.float64).to(device)
        y = torch.randint(10, (len(x),)).to(device)
        part = slice(12 * rank, 12 * (rank + 1))
        for model, optimizer, batch in zip((alone, ddp_model), optimizers, (slice(None), part), strict=True):
            optimizer.zero_grad()
            output = model(x[batch])
            loss = nn.functional.cross_entropy(output, y[batch])
            loss.backward()
            optimizer.step()
        pairs = zip(alone.parameters(), shared.parameters(), strict=True)
        gaps.append(max((one - two).abs().max().item() for one, two in pairs))

    if rank == 0:
        print(f"norm {args.norm}: after five steps the weights differ by at most {gaps[-1]:.1e}")
    report("equal", place, gaps=gaps, replaced=replaced, weights=shared.first.weight.flatten().tolist())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
