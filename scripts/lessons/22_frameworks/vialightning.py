"""The same training with Lightning: the loop is inside the Trainer, which asks a module for parts.

Run:  torchrun --standalone --nproc-per-node=2 fourways.py --ways lightning
"""

from lightning import LightningModule, Trainer
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD
from torch.utils.data import DataLoader

from devices import Place
from ground import BATCH, Witness, network, own_rows, rows

RANKS = {"accelerator": "cpu", "strategy": "ddp", "devices": 2}
QUIET = ["logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"]


class Module(LightningModule):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def configure_optimizers(self) -> SGD:
        return SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def training_step(self, batch: tuple[Tensor, Tensor], number: int) -> Tensor:
        x, y = batch
        return cross_entropy(self.model(x), y)


def train(settings: dict, place: Place, witness: Witness) -> tuple[nn.Module, SGD]:
    """The network and the optimizer, after one epoch."""
    model = network(witness)
    # The Trainer puts in a sampler of its own, unless it is told to leave ours alone.
    sampler = None if settings.get("use_distributed_sampler", True) else own_rows(place)
    loader = DataLoader(rows(), BATCH, sampler=sampler)
    trainer = Trainer(max_epochs=1, **RANKS, **dict.fromkeys(QUIET, False), **settings)
    trainer.fit(Module(model), loader)
    return model, trainer.optimizers[0]
