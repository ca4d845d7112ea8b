"""A small training that can be stopped after any step and taken up again: a network on made-up pictures.

Its users call `dist.init_process_group` first.
"""

import os
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from devices import Place

PICTURES, BATCH = 640, 32  # 20 steps an epoch, however many ranks share a batch of 32
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # else cuBLAS may add in another order from run to run


def pictures() -> TensorDataset:
    """640 noisy pictures (1, 8, 8) of ten made-up things, the same on every rank, and their labels."""
    draw = torch.Generator().manual_seed(0)
    things = torch.randn(10, 1, 8, 8, generator=draw)
    y = torch.randint(10, (PICTURES,), generator=draw)
    return TensorDataset(things[y] + 1.5 * torch.randn(PICTURES, 1, 8, 8, generator=draw), y)


def network() -> nn.Sequential:
    """(N, 1, 8, 8) → ten scores each. BatchNorm and dropout, since both make resuming harder."""
    first = [nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*first, nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(128, 10))


def random_state(device: torch.device) -> dict[str, Tensor]:
    """Where this rank's random numbers stand: on the CPU, and on its GPU if it has one."""
    gpu = {"gpu": torch.cuda.get_rng_state(device)} if device.type == "cuda" else {}
    return {"cpu": torch.get_rng_state()} | gpu


def set_random_state(state: dict[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(state["cpu"].cpu())  # a random state is bytes in main memory, also a GPU's
    if "gpu" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["gpu"].cpu(), device)


class Training:
    """Everything that a step reads or changes; `state` and `restore` are its way into a file and back."""

    def __init__(self, place: Place, epochs: int = 3, seed: int = 0):
        if BATCH % place.world_size:
            raise ValueError(f"{place.world_size} ranks cannot share a batch of {BATCH} equally")
        torch.use_deterministic_algorithms(True)
        self.place, self.epochs, self.pictures = place, epochs, pictures()
        torch.manual_seed(seed)
        self.model = network().to(place.device)
        self.ddp_model = DistributedDataParallel(self.model)
        torch.manual_seed(seed + place.rank)  # from here on, every rank draws random numbers of its own
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)
        self.total = epochs * PICTURES // BATCH
        schedule = torch.optim.lr_scheduler.OneCycleLR
        self.scheduler = schedule(self.optimizer, 0.1, total_steps=self.total, anneal_strategy="linear")
        self.sampler = DistributedSampler(self.pictures, shuffle=True, seed=seed)
        self.epoch, self.step, self.losses = 0, 0, []  # step: how many this epoch has had

    def state(self) -> dict:
        parts = {"model": self.model, "optimizer": self.optimizer, "scheduler": self.scheduler}
        position = {"epoch": self.epoch, "step": self.step, "random": random_state(self.place.device)}
        return {name: part.state_dict() for name, part in parts.items()} | position | {"losses": list(self.losses)}

    def restore(self, state: dict, random: bool = True) -> None:
        """Go on from a state. `random=False`: draw new random numbers, as when other ranks have written it."""
        for name in ("model", "optimizer", "scheduler"):
            getattr(self, name).load_state_dict(state[name])
        self.epoch, self.step, self.losses = state["epoch"], state["step"], list(state["losses"])
        if random:
            set_random_state(state["random"], self.place.device)

    def steps(self) -> Iterator[int]:
        """Train to the end; after each step, yield how many have been made in all."""
        share = BATCH // self.place.world_size
        while self.epoch < self.epochs and len(self.losses) < self.total:
            self.sampler.set_epoch(self.epoch)
            rest = list(self.sampler)[self.step * share :]  # what this epoch has seen already is not seen twice
            # With a generator of its own, starting a loader draws no number from the one that dropout uses.
            for x, y in DataLoader(self.pictures, share, sampler=rest, generator=torch.Generator()):
                self.optimizer.zero_grad()
                output = self.ddp_model(x.to(self.place.device))
                loss = nn.functional.cross_entropy(output, y.to(self.place.device))
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()
                self.step += 1
                self.losses.append(loss.item())
                yield len(self.losses)
            self.epoch, self.step = self.epoch + 1, 0
