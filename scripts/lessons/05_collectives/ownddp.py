"""DistributedDataParallel of our own: same start on every rank, averaged gradients in every step.

Run:  python ownddp.py                                              # one process
      torchrun --standalone --nproc-per-node=2 ownddp.py            # two ranks
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report
from ring import ring_all_reduce
from yardstick import apart

STEPS = 12
SHARE = 12  # rows of a batch that each rank takes


class OwnDDP(nn.Module):
    """A module that starts alike on all ranks; `average_gradients` makes its gradients alike."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module
        # Parameters, and buffers such as those of BatchNorm.
        for tensor in module.state_dict().values():
            dist.broadcast(tensor, src=0)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.module(*inputs)

    def average_gradients(self) -> None:
        """Call it on every rank between `backward` and `step`."""
        gradients = []
        for parameter in self.module.parameters():
            if parameter.grad is not None:
                gradients.append(parameter.grad)
        sizes = [gradient.numel() for gradient in gradients]
        pieces = [gradient.flatten() for gradient in gradients]
        # One long message, not many short ones.
        flat = torch.cat(pieces)
        ring_all_reduce(flat)
        flat /= dist.get_world_size()
        for gradient, part in zip(gradients, flat.split(sizes), strict=True):
            gradient.copy_(part.view_as(gradient))


def network(seed: int) -> nn.Module:
    """(N, 4) → (N, 1), in float64; the same weights for the same seed."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    return model.double()


class Training:
    """One copy of the network, trained on its part of every batch."""

    def __init__(self, module: nn.Module, part: slice, averages: bool = False):
        self.module = module
        self.model = module
        if averages:
            self.model = OwnDDP(module)
        self.part = part
        self.averages = averages
        self.criterion = nn.MSELoss()
        self.optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        self.trace: list[float] = []  # one weight, before each step

    def step(self, x: Tensor, y: Tensor) -> None:
        last_layer = self.module[2]
        weight = last_layer.weight[0, 0]
        self.trace.append(weight.item())

        x = x[self.part]
        y = y[self.part]
        self.optimizer.zero_grad()
        output = self.model(x)
        loss = self.criterion(output, y)
        loss.backward()
        if self.averages:
            self.model.average_gradients()
        self.optimizer.step()

    def weights(self) -> Tensor:
        """All parameters in one tensor."""
        vector = nn.utils.parameters_to_vector(self.module.parameters())
        return vector.detach()


@record
def main() -> None:
    place = here()
    limit = timedelta(seconds=60)
    dist.init_process_group(place.backend, timeout=limit, device_id=place.bound)
    # Our ring sends tensors, and gloo sends those in main memory only.
    device = torch.device("cpu")
    if place.backend == "nccl":
        device = place.device

    # One copy learns from whole batches. Two take this rank's part, from a start of their own.
    rows = SHARE * place.world_size
    first = SHARE * place.rank
    share = slice(first, first + SHARE)
    alone = Training(network(0).to(device), slice(rows))
    own_ddp = Training(network(place.rank).to(device), share, averages=True)
    silent = Training(network(place.rank).to(device), share)
    start = alone.weights().clone()

    # The same batches on all ranks.
    generator = torch.Generator().manual_seed(0)
    gaps = {"own DDP": [], "never talks": []}
    for _ in range(STEPS):
        x = torch.randn(rows, 4, dtype=torch.float64, generator=generator)
        x = x.to(device)
        y = x.prod(1, keepdim=True)
        for training in (alone, own_ddp, silent):
            training.step(x, y)
        wanted = alone.weights() - start
        for name, training in {"own DDP": own_ddp, "never talks": silent}.items():
            moved = training.weights() - start
            gaps[name].append(apart(moved, wanted, wrong=0 * wanted))

    if place.rank == 0:
        for name, gap in gaps.items():
            print(f"after {STEPS} steps: {name} is {gap[-1]:.1e} from one process")
    traces = {"one process": alone.trace, "own DDP": own_ddp.trace, "never talks": silent.trace}
    weights = own_ddp.weights().tolist()
    report("ownddp", place, traces=traces, gaps=gaps, weights=weights)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
