"""Exercise: a script for one GPU. Turn it into one whose ranks train one model together.

Run:  torchrun --standalone --nproc-per-node=2 convert.py
"""

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from devices import here, report
from group import begin, end
from scaffold import Rows, network, notes


@record
def main() -> None:
    device = begin()
    dataset = Rows()
    # BEGIN SOLUTION
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, 16 // dist.get_world_size(), sampler=sampler)
    # STUB loader = DataLoader(dataset, 16, shuffle=True)
    # END SOLUTION

    model = network().to(device)
    # BEGIN SOLUTION
    model = DistributedDataParallel(model)
    # STUB # one process needs no wrapper
    # END SOLUTION
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    for epoch in range(3):
        # BEGIN SOLUTION
        sampler.set_epoch(epoch)
        # STUB # shuffle=True gives a new order in each epoch
        # END SOLUTION
        for x, y in loader:
            optimizer.zero_grad()
            output = model(x.to(device))
            loss = mse_loss(output, y.to(device))
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {len(loader)} steps, loss {loss:.3f}\n", end="")

    # BEGIN SOLUTION
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "convert.pt")
    # STUB torch.save(model.state_dict(), "convert.pt")
    # END SOLUTION
    report("convert", here(), **notes(dataset, model))  # for the check below
    end()


if __name__ == "__main__":
    main()
