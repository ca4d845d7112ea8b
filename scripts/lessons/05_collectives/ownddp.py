"""DistributedDataParallel of our own: same start on every rank, averaged gradients in every step.

Run:  python ownddp.py                                              # one process
      torchrun --standalone --nproc-per-node=2 ownddp.py            # two ranks
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report
from ring import ring_all_reduce


class OwnDDP(torch.nn.Module):
    """A module whose copies on all ranks start alike, and whose gradients `average_gradients` makes alike."""

    def __init__(self, module: torch.nn.Module):
        super().__init__()
        self.module = module
        for tensor in module.state_dict().values():  # parameters, and buffers such as those of BatchNorm
            dist.broadcast(tensor, src=0)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.module(*inputs)

    def average_gradients(self) -> None:
        """Call it on every rank between `backward` and `step`."""
        gradients = [p.grad for p in self.module.parameters() if p.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])  # one long message, not many short ones
        ring_all_reduce(flat)
        flat /= dist.get_world_size()
        for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))


def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()


@record
def main() -> None:
    place = rank, _, world_size, device, backend = here()
    dist.init_process_group(backend, timeout=timedelta(seconds=60))
    if backend == "gloo":
        device = torch.device("cpu")  # our ring sends, and gloo sends tensors in main memory only

    models = {}
    for name, seed in {"one process": 0, "own DDP": rank, "never talks": rank}.items():  # two with a start of their own
        torch.manual_seed(seed)
        models[name] = network().to(device)
    own_ddp = OwnDDP(models["own DDP"])
    optimizers = {name: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for name, model in models.items()}
    generator = torch.Generator().manual_seed(0)  # the same batches on all ranks, of which each takes its part

    traces, gaps = {name: [] for name in models}, []
    for _ in range(12):
        x = torch.randn(12 * world_size, 4, dtype=torch.float64, generator=generator).to(device)
        y = x.prod(1, keepdim=True)
        mine = slice(12 * rank, 12 * (rank + 1))
        for name, part in {"one process": slice(None), "own DDP": mine, "never talks": mine}.items():
            traces[name].append(models[name][2].weight[0, 0].item())

            optimizers[name].zero_grad()
            output = (own_ddp if name == "own DDP" else models[name])(x[part])
            loss = torch.nn.functional.mse_loss(output, y[part])
            loss.backward()
            if name == "own DDP":
                own_ddp.average_gradients()
            optimizers[name].step()
        pairs = zip(models["one process"].parameters(), models["own DDP"].parameters(), strict=True)
        gaps.append(max((one - two).abs().max().item() for one, two in pairs))

    weights = torch.cat([p.detach().flatten() for p in models["own DDP"].parameters()]).tolist()
    if rank == 0:
        print(f"after {len(gaps)} steps: own DDP differs from one process on the whole batch by {gaps[-1]:.1e}")
    report("ownddp", place, traces=traces, gaps=gaps, weights=weights)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
