"""DistributedDataParallel of our own, once more: buckets, sent by hooks while backward goes on.

Run:  python hooks.py
      torchrun --standalone --nproc-per-node=2 hooks.py
"""

import time
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start
from wire import network


class Overlapping(nn.Module):
    """A module whose gradients are averaged bucket by bucket, each as soon as it is complete.

    Every parameter must get a gradient in every backward pass, in the same order on all ranks.
    """

    def __init__(self, module: nn.Module, bucket_mb: float = 25):
        super().__init__()
        self.module = module
        self.flats: list[Tensor] = []  # all gradients of a bucket, one after the other
        self.sizes: list[int] = []  # how many parameters a bucket has
        self.works: list[dist.Work] = []  # all-reduces that are under way
        for tensor in module.state_dict().values():
            dist.broadcast(tensor, src=0)

        # The last layer's gradients come first, so they fill the first bucket.
        trained = []
        for parameter in module.parameters():
            if parameter.requires_grad:
                trained.append(parameter)
        backward = trained[::-1]
        bucket: list[Tensor] = []
        for parameter in backward:
            bucket.append(parameter)
            size = sum(p.nbytes for p in bucket)
            full = size >= bucket_mb * 2**20
            if full or parameter is backward[-1]:
                self.fill(bucket)
                bucket = []
        self.missing = list(self.sizes)  # how many gradients a bucket still waits for

    def fill(self, bucket: list[Tensor]) -> None:
        """One flat tensor, of which each gradient is a view: what is sent need not be copied first.

        The price: the tensor is filled with zeros ahead of each backward pass, which adds to them.
        """
        number = len(self.flats)
        lengths = [p.numel() for p in bucket]
        flat = bucket[0].new_zeros(sum(lengths))  # of the same type, on the same device
        parts = flat.split(lengths)
        arrived = partial(self.arrived, number)
        for parameter, part in zip(bucket, parts, strict=True):
            parameter.grad = part.view_as(parameter)
            parameter.register_post_accumulate_grad_hook(arrived)
        self.flats.append(flat)
        self.sizes.append(len(bucket))

    def arrived(self, number: int, parameter: Tensor) -> None:
        """Autograd calls this when a parameter of bucket `number` has its gradient."""
        flat = self.flats[number]
        # optimizer.zero_grad() drops the views: the bucket would stay full of zeros, and be sent.
        memory_of_gradient = parameter.grad.untyped_storage()
        memory_of_bucket = flat.untyped_storage()
        inside = memory_of_gradient.data_ptr() == memory_of_bucket.data_ptr()
        assert inside, "a gradient is outside its bucket: call zero_grad() of the model"
        self.missing[number] -= 1
        if self.missing[number] == 0:
            flat /= dist.get_world_size()
            work = dist.all_reduce(flat, async_op=True)  # and backward goes on
            self.works.append(work)
            elapsed = time.perf_counter() - self.begin
            self.handed.append(elapsed)

    def forward(self, *inputs: Tensor) -> Tensor:
        output = self.module(*inputs)
        self.handed: list[float] = []  # seconds after which each bucket was sent
        self.begin = time.perf_counter()  # of backward
        return output

    def zero_grad(self, set_to_none: bool = False) -> None:
        for flat in self.flats:  # gradients that are set to None would no longer be views
            flat.zero_()

    def finish(self) -> None:
        """Call it on every rank between `backward` and `step`: waits until all buckets are back."""
        self.back = time.perf_counter() - self.begin  # backward is through
        for work in self.works:
            work.wait()
        self.works = []
        self.missing = list(self.sizes)


@record
def main() -> None:
    place = here()
    start(place)
    model = Overlapping(network(place), bucket_mb=1)
    x = torch.randn(32, 512, device=place.device)
    output = model(x)
    loss = output.square().mean()
    loss.backward()
    model.finish()

    handed = [moment / model.back for moment in model.handed]
    if place.rank == 0:
        shares = ", ".join(f"{share:.0%}" for share in handed)
        print(f"{len(handed)} buckets, sent after {shares} of backward")
    report("hooks", place, handed=handed)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
