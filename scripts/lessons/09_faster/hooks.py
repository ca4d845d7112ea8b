"""DistributedDataParallel of our own, once more: buckets, sent by hooks while backward goes on.

Run:  python hooks.py
      torchrun --standalone --nproc-per-node=2 hooks.py
"""

import time
from datetime import timedelta
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report


class Overlapping(nn.Module):
    """A module whose gradients are averaged bucket by bucket, each as soon as its last gradient is there.

    Every parameter must get a gradient in every backward pass, in the same order on all ranks.
    """

    def __init__(self, module: nn.Module, bucket_mb: float = 25):
        super().__init__()
        self.module, self.flats, self.sizes, self.works = module, [], [], []
        for tensor in module.state_dict().values():
            dist.broadcast(tensor, src=0)
        bucket: list[Tensor] = []
        backward = [p for p in module.parameters() if p.requires_grad][::-1]  # the last layer's gradients come first
        for parameter in backward:
            bucket.append(parameter)
            if sum(p.nbytes for p in bucket) >= bucket_mb * 2**20 or parameter is backward[-1]:
                self.fill(bucket)
                bucket = []
        self.missing = list(self.sizes)

    def fill(self, bucket: list[Tensor]) -> None:
        """One flat tensor for a bucket, of which each gradient is a view: nothing is copied before it is sent."""
        flat = torch.zeros(sum(p.numel() for p in bucket), dtype=bucket[0].dtype, device=bucket[0].device)
        for parameter, part in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
            parameter.grad = part.view_as(parameter)
            parameter.register_post_accumulate_grad_hook(partial(self.arrived, len(self.flats)))
        self.flats.append(flat)
        self.sizes.append(len(bucket))

    def arrived(self, number: int, _: Tensor) -> None:
        """Autograd calls this when a parameter of bucket `number` has its gradient."""
        self.missing[number] -= 1
        if self.missing[number] == 0:
            self.flats[number] /= dist.get_world_size()
            self.works.append(dist.all_reduce(self.flats[number], async_op=True))  # and backward goes on
            self.handed.append(time.perf_counter() - self.begin)

    def forward(self, *inputs: Tensor) -> Tensor:
        output = self.module(*inputs)
        self.handed, self.begin = [], time.perf_counter()
        return output

    def zero_grad(self, set_to_none: bool = False) -> None:
        for flat in self.flats:  # set to None, the gradients would be no views any more
            flat.zero_()

    def finish(self) -> None:
        """Call it on every rank between `backward` and `step`: waits until all buckets are back."""
        self.back = time.perf_counter() - self.begin  # backward is through
        for work in self.works:
            work.wait()
        self.works, self.missing = [], list(self.sizes)


def network(place: Place, width: int = 512, depth: int = 8) -> nn.Sequential:
    """x (N, width) → (N, width); `depth` layers of width² weights each, the same start on every rank."""
    torch.manual_seed(0)
    layers = [part for _ in range(depth) for part in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers[:-1]).to(place.device)


@record
def main() -> None:
    place = here()
    dist.init_process_group(place.backend, timeout=timedelta(seconds=60))
    model = Overlapping(network(place), bucket_mb=1)
    model(torch.randn(32, 512, device=place.device)).square().mean().backward()
    model.finish()
    handed = [moment / model.back for moment in model.handed]
    if place.rank == 0:
        print(f"{len(handed)} buckets, sent after {', '.join(f'{part:.0%}' for part in handed)} of backward")
    report("hooks", place, handed=handed)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
