"""The same loop with DeepSpeed: its engine averages the gradients, and shares out the optimizer.

Run:  torchrun --standalone --nproc-per-node=2 fourways.py --ways zero1 zero2 zero3
"""

import deepspeed
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD
from torch.utils.data import DataLoader

from devices import Place
from ground import BATCH, Witness, network, own_rows, rows

# On a CPU, DeepSpeed would compile an all-reduce of its own first, which can take minutes.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
CONFIG = {"train_micro_batch_size_per_gpu": BATCH, "zero_allow_untested_optimizer": True}


def train(settings: dict, place: Place, witness: Witness) -> tuple[nn.Module, SGD]:
    """The network and the optimizer, after one epoch."""
    model = network(witness)
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = DataLoader(rows(), BATCH, sampler=own_rows(place))
    deepspeed.init_distributed("gloo")
    config = CONFIG | settings
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    for x, y in loader:
        loss = cross_entropy(engine(x), y)
        engine.backward(loss)
        engine.step()
    return model, optimizer
