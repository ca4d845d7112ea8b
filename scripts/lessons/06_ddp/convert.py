"""Exercise: a plain training script. Turn it into one whose ranks train one model together.

Run:  torchrun --standalone --nproc-per-node=2 convert.py
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from devices import here, report, start


@record
def main() -> None:
    place = here()
    # BEGIN SOLUTION
    start(place)
    device = place.device
    # STUB device = "cuda:0" if torch.cuda.is_available() else "cpu"
    # END SOLUTION

    # 64 rows, each with its number, so that we see who was shown which. The weights differ.
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 4, generator=generator)
    dataset = TensorDataset(torch.arange(64), x, x.prod(1, keepdim=True))
    torch.manual_seed(place.rank)
    network = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)

    # BEGIN SOLUTION
    model = DistributedDataParallel(network)
    sampler = DistributedSampler(dataset)
    # STUB model = network
    # STUB sampler = torch.utils.data.RandomSampler(dataset)
    # END SOLUTION
    loader = DataLoader(dataset, 8, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    shown = []
    for epoch in range(2):
        # BEGIN SOLUTION
        sampler.set_epoch(epoch)
        # STUB # the sampler shuffles
        # END SOLUTION
        numbers = []
        for number, rows, goal in loader:
            optimizer.zero_grad()
            output = model(rows.to(device))
            loss = nn.functional.mse_loss(output, goal.to(device))
            loss.backward()
            optimizer.step()
            numbers += number.tolist()
        shown.append(numbers)

    weights = nn.utils.parameters_to_vector(network.parameters()).tolist()
    print(f"rank {place.rank} on {device}: {len(shown[0])} rows in an epoch\n", end="")
    report("convert", place, weights=weights, shown=shown)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
