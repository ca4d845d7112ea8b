"""BatchNorm on two ranks: each knows its own part. Synchronised by hand, all know the whole batch.

Run:  torchrun --standalone --nproc-per-node=2 batchnorm.py
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report
from yardstick import apart

SHARE = 8  # pictures of each rank


class SumOverRanks(torch.autograd.Function):
    """All-reduce that gradients flow through: every rank's loss depends on what each rank adds."""

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
    """x (N, C, H, W) → the same shape, each channel normalised over the batches of all ranks.

    In training every rank must have as many pictures. In evaluation it is BatchNorm.
    """

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)

        # First the mean, then the variance around it: E[x²] − E[x]² would lose all digits where the
        # mean is large.
        own_count = x.numel() // x.shape[1]
        count = own_count * dist.get_world_size()
        own_sum = x.sum((0, 2, 3))
        mean = SumOverRanks.apply(own_sum) / count
        centred = x - mean[:, None, None]
        own_squares = centred.square().sum((0, 2, 3))
        variance = SumOverRanks.apply(own_squares) / count

        self.num_batches_tracked += 1
        self.running_mean.lerp_(mean.detach(), self.momentum)
        unbiased = variance.detach() * count / (count - 1)
        self.running_var.lerp_(unbiased, self.momentum)
        scale = self.weight * (variance + self.eps).rsqrt()
        scaled = centred * scale[:, None, None]
        return scaled + self.bias[:, None, None]


def input_gradient(layer: nn.Module, x: Tensor, target: Tensor) -> Tensor:
    """The gradient of a loss by the layer's input, of x's shape."""
    x = x.clone().requires_grad_()
    output = layer(x)
    loss = (output * target).sum()
    loss.backward()
    return x.grad


@record
def main() -> None:
    place = here()
    limit = timedelta(seconds=60)
    dist.init_process_group(place.backend, timeout=limit, device_id=place.bound)

    # The same whole batch and the same loss on every rank, of which each takes its part.
    torch.manual_seed(0)
    shape = (SHARE * place.world_size, 3, 4, 4)
    whole, target = torch.randn(2, *shape, dtype=torch.float64, device=place.device)
    first = SHARE * place.rank
    part = slice(first, first + SHARE)

    # What one process gets with the whole batch is what the ranks should get together.
    alone = nn.BatchNorm2d(3)
    alone.to(place.device, torch.float64)
    whole_gradient = input_gradient(alone, whole, target)
    expected = whole_gradient[part]
    layers = {"BatchNorm": nn.BatchNorm2d(3), "ours": SyncedBatchNorm(3)}
    if place.backend == "nccl":  # in training, the library's own takes tensors on GPUs only
        layers["SyncBatchNorm"] = nn.SyncBatchNorm(3)

    gaps = {}
    means = {"one process": alone.running_mean.tolist()}
    variances = {"one process": alone.running_var.tolist()}
    for name, layer in layers.items():
        layer.to(place.device, torch.float64)
        gradient = input_gradient(layer, whole[part], target[part])
        gap = apart(gradient, expected, wrong=target[part])  # as if there were no layer
        gaps[name] = gap
        means[name] = layer.running_mean.tolist()
        variances[name] = layer.running_var.tolist()
        mean = means[name][0]
        numbers = f"mean of channel 0 {mean:+.5f}, gradient off by {gap:.1e}"
        print(f"rank {place.rank}, {name}: {numbers}\n", end="")
    report("batchnorm", place, gaps=gaps, means=means, variances=variances)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
