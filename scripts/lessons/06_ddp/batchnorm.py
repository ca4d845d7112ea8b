"""BatchNorm on two ranks: each knows the statistics of its own part. Synchronised by hand, it is the whole batch's.

Run:  torchrun --standalone --nproc-per-node=2 batchnorm.py
"""

import argparse
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


class SumOverRanks(torch.autograd.Function):
    """All-reduce that gradients flow through: what every rank adds, every rank's loss depends on."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        total = gradient.clone()
        dist.all_reduce(total)
        return total


class SyncedBatchNorm(nn.BatchNorm2d):
    """x (N, C, H, W) → the same shape, each channel normalised over the batches of all ranks, equal in size."""

    def forward(self, x: Tensor) -> Tensor:
        sums = SumOverRanks.apply(torch.stack([x.sum((0, 2, 3)), x.square().sum((0, 2, 3))]))
        mean, square = sums / (x.numel() / x.shape[1] * dist.get_world_size())
        self.running_mean.lerp_(mean.detach(), self.momentum)
        scale = self.weight * (square - mean**2 + self.eps).rsqrt()
        return x * scale[:, None, None] + (self.bias - mean * scale)[:, None, None]


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timeout", type=float, default=60)
    args, place = parser.parse_args(), here()
    rank, _, world_size, device, backend = place
    dist.init_process_group(backend, timeout=timedelta(seconds=args.timeout))

    torch.manual_seed(0)  # the same whole batch and the same loss on every rank
    whole, target = torch.randn(2, 8 * world_size, 3, 4, 4, dtype=torch.float64, device=device)
    part = slice(8 * rank, 8 * (rank + 1))

    def gradient(layer: nn.Module, x: Tensor, target: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        (layer(x) * target).sum().backward()
        return x.grad

    alone = nn.BatchNorm2d(3).to(device, torch.float64)
    wanted = gradient(alone, whole, target)[part]
    layers = {"BatchNorm": nn.BatchNorm2d(3), "ours": SyncedBatchNorm(3)}
    if backend == "nccl":  # the library's own works between GPUs only
        layers["SyncBatchNorm"] = nn.SyncBatchNorm(3)
    gaps, means = {}, {"one process": alone.running_mean.tolist()}
    for name, layer in layers.items():
        layer.to(device, torch.float64)
        gaps[name] = (gradient(layer, whole[part], target[part]) - wanted).abs().max().item()
        means[name] = layer.running_mean.tolist()
        print(
            f"rank {rank}, {name}: mean of channel 0 {means[name][0]:+.5f}, gradient off by {gaps[name]:.1e}\n", end=""
        )
    report("batchnorm", place, gaps=gaps, means=means)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
