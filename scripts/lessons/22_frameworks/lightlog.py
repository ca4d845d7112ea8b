"""Lightning on several machines of one process each: what it says, and what it logs.

Every rank logs a number of its own, plainly and with `sync_dist`.

Run:  python lightlog.py
      torchrun --standalone --nproc-per-node=2 lightlog.py
"""

import os
import warnings

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from devices import Place, here, keep_group, report
from fetch import has
from keptruns import KEPT

warnings.filterwarnings("ignore", message=".*LeafSpec")  # Lightning 2.6 under torch 2.15
warnings.filterwarnings("ignore", message="The `srun` command")  # where there is Slurm
warnings.filterwarnings("ignore", message=".*does not have many workers")


def fit(place: Place) -> dict:
    """Train two steps on made-up pictures; what was logged, on this rank."""
    from lightning import LightningModule, Trainer

    class Digits(LightningModule):
        """The network of the log that this lesson reads."""

        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(1, 32, 3)
            self.conv2 = nn.Conv2d(32, 64, 3)
            self.dropout1 = nn.Dropout(0.25)
            self.dropout2 = nn.Dropout(0.5)
            self.fc1 = nn.Linear(9216, 128)
            self.fc2 = nn.Linear(128, 10)

        def forward(self, x: Tensor) -> Tensor:
            x = self.conv1(x).relu()
            x = self.conv2(x).relu()
            x = nn.functional.max_pool2d(x, 2)
            x = self.dropout1(x).flatten(1)
            x = self.fc1(x).relu()
            return self.fc2(self.dropout2(x))

        def training_step(self, batch: tuple[Tensor, Tensor], number: int) -> Tensor:
            x, y = batch
            value = float(10 * (place.rank + 1))
            self.log("plain", value)
            self.log("synced", value, sync_dist=True)
            return cross_entropy(self(x), y)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    pictures = torch.zeros(24, 1, 28, 28)
    classes = torch.zeros(24, dtype=torch.long)
    loader = DataLoader(TensorDataset(pictures, classes), 4)
    local = int(os.environ["LOCAL_WORLD_SIZE"])
    trainer = Trainer(
        accelerator="cpu",
        strategy="ddp",
        devices=local,
        num_nodes=place.world_size // local,
        max_steps=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Digits(), loader)
    return {name: value.item() for name, value in trainer.callback_metrics.items()}


def refusals() -> list[str]:
    """What today's Trainer says to arguments of 2021."""
    from lightning import Trainer

    told = []
    for old in [{"gpus": 2}, {"accelerator": "ddp"}, {"strategy": "dp"}]:
        try:
            Trainer(**old)
        except (TypeError, ValueError) as error:
            told.append(str(error))
    return told


@record
def main() -> None:
    place = here()
    torch.set_num_threads(1)
    if has("lightning"):
        refused = refusals()
        logged = fit(place)
        keep_group(dist.group.WORLD)  # as start() does; this one is Lightning's
        dist.destroy_process_group()
    else:
        refused = KEPT["refused"]
        logged = KEPT["logged"][place.rank]
        print(KEPT["log"][place.rank])
    report("lightlog", place, logged=logged, local_rank=place.local_rank, refused=refused)


if __name__ == "__main__":
    main()
