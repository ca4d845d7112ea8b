"""A small training that can be stopped after any step and taken up again.

A network learns from made-up pictures. Its users call `start(place)` first.
"""

import os
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from devices import Place
from randomness import random_state, set_random_state

PICTURES = 640
BATCH = 32  # 20 steps an epoch, however many ranks share a batch
# Without this cuBLAS may add in another order from run to run.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def pictures() -> TensorDataset:
    """640 noisy pictures (1, 8, 8) of ten made-up things, alike on every rank, and their labels."""
    generator = torch.Generator().manual_seed(0)
    things = torch.randn(10, 1, 8, 8, generator=generator)
    y = torch.randint(10, (PICTURES,), generator=generator)
    noise = torch.randn(PICTURES, 1, 8, 8, generator=generator)
    return TensorDataset(things[y] + 1.5 * noise, y)


def network() -> nn.Sequential:
    """(N, 1, 8, 8) → ten scores each. BatchNorm and dropout, since both make resuming harder."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(128, 10),
    )


class Training:
    """All that a step reads or changes; `state` and `restore` are its way into a file and back."""

    def __init__(self, place: Place, epochs: int = 3, seed: int = 0):
        if BATCH % place.world_size:
            raise ValueError(f"{place.world_size} ranks cannot share a batch of {BATCH} equally")
        torch.use_deterministic_algorithms(True)
        self.place = place
        self.epochs = epochs
        self.pictures = pictures()

        torch.manual_seed(seed)
        self.model = network().to(place.device)
        self.ddp_model = DistributedDataParallel(self.model)
        # From here on, every rank draws random numbers of its own.
        torch.manual_seed(seed + place.rank)

        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)
        self.total = epochs * PICTURES // BATCH  # steps
        self.scheduler = OneCycleLR(
            self.optimizer, 0.1, total_steps=self.total, anneal_strategy="linear"
        )
        self.sampler = DistributedSampler(self.pictures, shuffle=True, seed=seed)
        self.epoch = 0
        self.step = 0  # how many this epoch has had
        self.losses: list[float] = []  # one of every step so far

    def own(self) -> dict:
        """What differs from rank to rank."""
        return {"random": random_state(self.place.device), "losses": list(self.losses)}

    def state(self) -> dict:
        """Everything that `restore` needs, as tensors, numbers, texts, lists and dicts.

        The tensors are the training's own, not copies: save or copy them before the next step.
        """
        return self.own() | {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "epoch": self.epoch,
            "step": self.step,
        }

    def to_save(self) -> dict:
        """What this rank writes: rank 0 everything, the others only what is their own.

        BatchNorm's statistics differ, too; but DDP sends rank 0's ahead of each step.
        """
        return self.state() if self.place.rank == 0 else self.own()

    def settle(self) -> None:
        """Let DDP order its buckets as it does in the second step of every training.

        A new DDP learns in its first backward in which order gradients are ready, and then packs
        them anew. Among three ranks and more, the place in a bucket decides in which order numbers
        are added, and so the last bit.
        """
        x, _ = self.pictures[: BATCH // self.place.world_size]
        self.ddp_model(x.to(self.place.device)).sum().backward()
        self.optimizer.zero_grad()  # the step itself is thrown away

    def restore(self, state: dict, random: bool = True, settle: bool = True) -> None:
        """Go on from a state; all ranks call this.

        `random=False`: draw new numbers, when other ranks have saved it.
        """
        if settle:
            self.settle()
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.epoch = state["epoch"]
        self.step = state["step"]
        self.losses = list(state["losses"])
        if random:
            set_random_state(state["random"], self.place.device)

    def steps(self) -> Iterator[int]:
        """Train to the end; after each step, yield how many have been made in all."""
        share = BATCH // self.place.world_size
        while self.epoch < self.epochs and len(self.losses) < self.total:
            # What this epoch has seen already is not seen twice.
            self.sampler.set_epoch(self.epoch)
            rest = list(self.sampler)[self.step * share :]
            # With a generator of its own, starting a loader draws no number from dropout's.
            own = torch.Generator()
            for x, y in DataLoader(self.pictures, share, sampler=rest, generator=own):
                self.optimizer.zero_grad()
                output = self.ddp_model(x.to(self.place.device))
                loss = nn.functional.cross_entropy(output, y.to(self.place.device))
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()
                self.step += 1
                self.losses.append(loss.item())
                yield len(self.losses)
            self.epoch += 1
            self.step = 0
