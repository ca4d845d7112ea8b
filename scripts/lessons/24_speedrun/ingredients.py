"""What a recipe is made of: each ingredient of the speed-run is a switch with a name.

Run:  python ingredients.py
"""

from typing import NamedTuple

import torch
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from devices import here, report
from dtypes import FORMATS, best_dtype, units
from model import ResNet, count
from optimizers import optimizers_of

SWITCHES = {
    "nothing": "changes nothing",
    "batches": "whole batches, on the device",
    "cycle": "one cycle of the learning rate, planned by the clock",
    "resnet": "the course's residual network, in batches of 256",
    "last": "channels last",
    "bits": "16 bits, if there are units for them",
    "fused": "one kernel updates all weights",
    "views": "gradients as views of buckets, own statistics",
    "smooth": "label smoothing of 0.1",
    "compile": "torch.compile of the inner model",
    "warm": "its cache is kept from an earlier run",
    "sizes": "small pictures first",
    "ema": "test with a moving average of the weights",
    "wide": "twice as many channels in the last layers",
    "muon": "Muon for the convolutions",
}


class Way(NamedTuple):
    """One way to train: which switches are on, the highest learning rate, and the seed."""

    switches: frozenset[str]
    lr: float
    seed: int

    @property
    def batch_size(self) -> int:
        """Pictures in one step of all ranks."""
        return 256 if "resnet" in self.switches else 128


def parse(text: str) -> Way:
    """`batches+cycle@0.1:3`: these switches, this rate, this seed. `plain` has no switch at all."""
    rest, _, seed = text.partition(":")
    names, _, lr = rest.partition("@")
    switches = frozenset(names.split("+")) - {"plain"}
    unknown = switches - set(SWITCHES)
    if unknown:
        known = ", ".join(SWITCHES)
        raise ValueError(f"no switch {min(unknown)}: there is {known}")
    usual = 0.4 if "resnet" in switches else 0.05
    highest = float(lr or usual)
    number = int(seed or 0)
    return Way(switches, highest, number)


class Tutorial(nn.Sequential):
    """Pictures (N, 3, 32, 32) → ten scores each: the network of beginners' tutorials."""

    def __init__(self):
        convolutions = [nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2)]
        convolutions += [nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)]
        linear = [nn.Linear(400, 120), nn.ReLU()]
        linear += [nn.Linear(120, 84), nn.ReLU()]
        last = nn.Linear(84, 10)
        super().__init__(*convolutions, nn.Flatten(), *linear, last)


def network(way: Way) -> nn.Module:
    """The network of a way, with fresh weights."""
    if "resnet" not in way.switches:
        return Tutorial()
    widths = (32, 64, 128) if "wide" in way.switches else (32, 64, 64)
    return ResNet(widths)


def under_ddp(way: Way, model: nn.Module) -> DistributedDataParallel:
    """The model, compiled if the way says so, with gradients that are averaged over the ranks."""
    inner = model
    if "compile" in way.switches:
        inner = torch.compile(model, dynamic=False)
    options = {}
    if "views" in way.switches:
        options = {"gradient_as_bucket_view": True, "static_graph": True}
    ddp_model = DistributedDataParallel(inner, **options)
    ddp_model.broadcast_buffers = "views" not in way.switches
    return ddp_model


def moving_average(way: Way, model: nn.Module) -> AveragedModel | None:
    """An average that follows the weights and statistics; None without the switch."""
    if "ema" not in way.switches:
        return None
    update = get_ema_multi_avg_fn(0.98)
    return AveragedModel(model, multi_avg_fn=update, use_buffers=True)


def mixed_precision(way: Way, device: torch.device) -> tuple[torch.autocast, torch.amp.GradScaler]:
    """What a step runs in, and what scales its loss, which only fp16 needs."""
    best, _ = best_dtype(units(device))
    name = best if "bits" in way.switches else "fp32"
    dtype = FORMATS[name]
    cast = torch.autocast(device.type, dtype, enabled=dtype != torch.float32)
    scaler = torch.amp.GradScaler(device.type, enabled=dtype == torch.float16)
    return cast, scaler


def optimizers(way: Way, model: nn.Module) -> list[torch.optim.Optimizer]:
    """SGD with momentum, and Muon for the convolutions if the way says so."""
    fused = True if "fused" in way.switches else None  # None: torch chooses
    return optimizers_of(model, "muon" in way.switches, fused)


def factor(way: Way, share: float) -> float:
    """The learning rate, as a part of the highest, when this share of the seconds is over."""
    if "cycle" not in way.switches:
        return 1.0
    if share < 0.25:
        return 0.1 + 0.9 * share / 0.25  # up
    return max(0.0, (1 - share) / 0.75)  # down, to zero


def side(way: Way, share: float) -> int:
    """Pixels along a side of the pictures, when this share of the seconds is over."""
    small = "sizes" in way.switches and share < 0.5
    return 24 if small else 32


@record
def main() -> None:
    sizes = {}
    for name in ("plain", "resnet", "resnet+wide"):
        way = parse(name)
        model = network(way)
        sizes[name] = count(model)
        print(f"{name:12}{sizes[name]:9,} parameters")
    report("ingredients", here(), sizes=sizes)


if __name__ == "__main__":
    main()
