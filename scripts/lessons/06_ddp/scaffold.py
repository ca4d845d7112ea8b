"""64 rows and a small network for two exercises, and notes of what each rank did with them.

convert.py uses `Rows` and `network` as a script uses any data set and any network.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector
from torch.utils.data import Dataset

SIZE = 64
saved: list[list[str]] = []  # the names in each file that this process wrote by `torch.save`
write = torch.save


class Rows(Dataset):
    """Rows of four numbers, and their product; `batches` keeps which rows were asked for."""

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(SIZE, 4, dtype=torch.float64, generator=generator)
        self.y = self.x.prod(1, keepdim=True)
        self.batches: list[list[int]] = []

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
        self.batches.append(list(indices))
        return [self[index] for index in indices]


def network() -> nn.Sequential:
    """x (N, 4) → (N, 1), in float64. Each process begins with other weights."""
    rank = int(os.environ.get("RANK", "0"))
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    return model.double()


def train_alone(batches: list[list[int]]) -> list[float]:
    """The weights of one process with rank 0's start, after one step on each batch of rows."""
    rows = Rows()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in batches:
        x = rows.x[batch]
        y = rows.y[batch]
        optimizer.zero_grad()
        output = model(x)
        loss = nn.functional.mse_loss(output, y)
        loss.backward()
        optimizer.step()
    return parameters_to_vector(model.parameters()).tolist()


def by_epoch(batches: list[list[int]], epochs: int = 3) -> list[list[int]]:
    """The rows of each epoch in their order, if all epochs have equally many."""
    rows = []
    for batch in batches:
        rows.extend(batch)
    share = len(rows) // epochs
    of_epochs = []
    for epoch in range(epochs):
        begin = epoch * share
        of_epochs.append(rows[begin : begin + share])
    return of_epochs


def save(thing: object, *rest, **options) -> None:
    """`torch.save`, and a note of the names in what it saves."""
    names = [type(thing).__name__]
    if isinstance(thing, Mapping):
        names = list(thing)
    saved.append(names)
    write(thing, *rest, **options)


if "TORCHELASTIC_RUN_ID" in os.environ:  # torchrun started this process: it is a rank
    torch.save = save


def notes(rows: Rows, model: nn.Module) -> dict[str, list]:
    """What this process did, for the check."""
    weights = parameters_to_vector(model.parameters()).tolist()
    return {"batches": rows.batches, "weights": weights, "saved": saved}


def has_left() -> bool:
    """Whether this rank had left its group. If not, it leaves now: two ranks that end while they
    are connected may stop each other with an error, and the check would have nothing to look at.
    """
    left = not dist.is_initialized()
    if not left:
        dist.destroy_process_group()
    return left


def number_of(device: object) -> int:
    """1, for 1 as for "cuda:1"."""
    if isinstance(device, int):
        return device
    return torch.device(device).index


def imagined(begin: Callable[[], str]) -> str:
    """The GPU that `begin` takes as rank 3, local rank 1, on the second of two machines.

    Each of them has two GPUs. Nothing is started: this process only pretends to be there.
    """
    chosen = [0]  # the newest is the current GPU
    names = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
    pretended = {
        "is_available": lambda: True,
        "device_count": lambda: 2,
        "set_device": lambda device: chosen.append(number_of(device)),
        "current_device": lambda: chosen[-1],
    }
    with (
        mock.patch.dict(os.environ, names),
        mock.patch.multiple(torch.cuda, **pretended),
        mock.patch.object(dist, "init_process_group", lambda *_, **__: None),
    ):
        try:
            device = torch.device(begin())
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    current = f"cuda:{chosen[-1]}"
    if str(device) in ("cuda", current):
        return current
    return f"{device}, and {current} is current"
