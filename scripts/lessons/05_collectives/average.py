"""Two ranks learn one sine curve: rank 0 sees its left half, rank 1 its right half.

Run:  python average.py                                              # one process, the whole curve
      torchrun --standalone --nproc-per-node=2 average.py            # two ranks, half a curve each
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

    torch.manual_seed(0)  # the same network on every rank
    model = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).to(device)
    criterion = torch.nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    curve = torch.linspace(-3, 3, 200).unsqueeze(1).to(device)  # (200, 1)
    x = curve.chunk(world_size)[rank]  # this rank's part
    y = torch.sin(x)

    weights = []
    for _ in range(500):
        optimizer.zero_grad()
        output = model(x)
        loss = criterion(output, y)
        loss.backward()
        # BEGIN SOLUTION
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world_size
        # STUB # each rank goes its own way: `step` follows its own gradient
        # END SOLUTION
        optimizer.step()
        weights.append(model[2].weight[0, 0].item())

    with torch.no_grad():
        output = model(curve)
        error = criterion(output, torch.sin(curve)).item()
    print(f"rank {rank}: mean squared error {loss:.5f} on its own part, {error:.5f} on the whole curve\n", end="")
    x, output = curve.flatten().tolist(), output.flatten().tolist()
    report("average", place, x=x, output=output, weights=weights, error=error)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
