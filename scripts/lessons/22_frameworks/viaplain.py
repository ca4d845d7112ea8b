"""The loop of lesson 06, and nothing else: DDP averages the gradients.

Run:  torchrun --standalone --nproc-per-node=2 fourways.py --ways plain
"""

from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD
from torch.utils.data import DataLoader

from devices import Place
from ground import BATCH, Witness, network, own_rows, rows


def train(settings: dict, place: Place, witness: Witness) -> tuple[nn.Module, SGD]:
    """The network and the optimizer, after one epoch."""
    model = network(witness)
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = DataLoader(rows(), BATCH, sampler=own_rows(place))
    ddp_model = DistributedDataParallel(model, **settings)
    for x, y in loader:
        optimizer.zero_grad()
        loss = cross_entropy(ddp_model(x), y)
        loss.backward()
        optimizer.step()
    return model, optimizer
