"""The same loop with Accelerate: `prepare` shares out the rows, and wraps the network in DDP.

Run:  torchrun --standalone --nproc-per-node=2 fourways.py --ways accelerate
"""

from accelerate import Accelerator
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD
from torch.utils.data import DataLoader

from devices import Place
from ground import BATCH, Witness, network, rows


def train(settings: dict, place: Place, witness: Witness) -> tuple[nn.Module, SGD]:
    """The network and the optimizer, after one epoch."""
    model = network(witness)
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = DataLoader(rows(), BATCH)
    accelerator = Accelerator(cpu=True, **settings)
    ddp_model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x, y in loader:
        optimizer.zero_grad()
        loss = cross_entropy(ddp_model(x), y)
        accelerator.backward(loss)
        optimizer.step()
    return model, optimizer.optimizer
