"""Is DDP on parts of a batch the same as one process on the whole batch? Five optimizer steps of each, compared.

Run:  torchrun --standalone --nproc-per-node=2 equal.py
      torchrun --standalone --nproc-per-node=2 equal.py --cases none batch
"""

import argparse
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report

CASES = {  # what normalises, and how many pictures of a step each rank takes, rank 0 and the others
    "group": (lambda: nn.GroupNorm(4, 8), (12, 12)),
    "none": (nn.Identity, (12, 12)),
    "batch": (lambda: nn.BatchNorm2d(8), (12, 12)),
    "uneven": (lambda: nn.GroupNorm(4, 8), (17, 7)),
}


class Network(nn.Module):
    """x (N, 3, 8, 8) → (N, 10). `second` may share its weight with `first`, and `frozen` never learns."""

    def __init__(self, norm: nn.Module, tied: bool):
        super().__init__()
        self.frozen = nn.Conv2d(3, 8, 3).requires_grad_(False)
        self.first, self.second = nn.Conv2d(8, 8, 3), nn.Conv2d(8, 8, 3)
        if tied:
            self.second.weight = self.first.weight
        self.norm, self.head = norm, nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.second(self.norm(self.first(self.frozen(x).relu())).relu())
        return self.head(x.mean((2, 3)))


def compare(case: str, tied: bool, place: Place) -> dict[str, object]:
    """Largest difference of any weight after each step (`gaps`), and what the ranks have in common."""
    norm, (first, others) = CASES[case]
    torch.manual_seed(0)
    alone = Network(norm(), tied).to(place.device, torch.float64)  # the same on every rank, trained on whole batches
    torch.manual_seed(place.rank)  # another start on every rank: DDP's first act is to copy rank 0's weights to all
    shared = Network(norm(), tied).to(place.device, torch.float64)
    own_start = shared.first.weight.detach().clone()
    ddp_model = DistributedDataParallel(shared)
    replaced = not torch.equal(own_start, shared.first.weight)

    torch.manual_seed(1)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in (alone, ddp_model)]
    start = place.rank and first + others * (place.rank - 1)
    part, gaps = slice(start, start + (others if place.rank else first)), []
    for _ in range(5):
        x = torch.randn(first + others * (place.world_size - 1), 3, 8, 8, dtype=torch.float64).to(place.device)
        y = torch.randint(10, (len(x),)).to(place.device)
        for model, optimizer, batch in zip((alone, ddp_model), optimizers, (slice(None), part), strict=True):
            optimizer.zero_grad()
            output = model(x[batch])
            loss = nn.functional.cross_entropy(output, y[batch])
            loss.backward()
            gradients = model.get_parameter("head.bias" if model is alone else "module.head.bias").grad.tolist()
            optimizer.step()
        pairs = zip(alone.parameters(), shared.parameters(), strict=True)
        gaps.append(max((one - two).abs().max().item() for one, two in pairs))
    weights = shared.first.weight.flatten().tolist()
    return {"gaps": gaps, "replaced": replaced, "gradients": gradients, "loss": loss.item(), "weights": weights}


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=["group", "batch", "uneven"])
    parser.add_argument("--tied", action="store_true", help="two layers share one weight")
    parser.add_argument("--timeout", type=float, default=60)
    args, place = parser.parse_args(), here()
    dist.init_process_group(place.backend, timeout=timedelta(seconds=args.timeout))

    found = {case: compare(case, args.tied, place) for case in args.cases}
    if place.rank == 0:
        for case, numbers in found.items():
            print(f"{case:8} after five steps the weights differ by at most {numbers['gaps'][-1]:.1e}")
    report("equal", place, **found)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
