"""One network, one seed, one set of rows, and several ways to train: do they give the same weights?

A way whose package is not here gets the numbers of a run that was kept.

Run:  python fourways.py --ways plain
      torchrun --standalone --nproc-per-node=2 fourways.py
"""

import importlib
import json
import logging
import warnings
from argparse import ArgumentParser
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.utils import parameters_to_vector

from devices import Place, here, report, start
from fetch import has
from ground import Witness, network
from keptruns import KEPT
from yardstick import apart

# Way → the package that it needs, and the settings that are part of its name.
STAGES = {"stage3_param_persistence_threshold": 0}  # or ZeRO-3 keeps small ones whole, too
WAYS = {"plain": ("torch", {})}
for package in ("accelerate", "lightning"):
    WAYS[package] = (package, {})
for number in (1, 2, 3):
    stage = {"zero_optimization": {"stage": number} | STAGES}
    WAYS[f"zero{number}"] = ("deepspeed", stage)


def hush() -> None:
    """Silence what the frameworks say when nothing is wrong."""
    logging.disable(logging.WARNING)
    # Lightning 2.6 calls what torch 2.15 has renamed; it points at `srun` where there is Slurm.
    warnings.filterwarnings("ignore", message=".*LeafSpec")
    warnings.filterwarnings("ignore", message="The `srun` command")


def gathered(model: nn.Module):
    """A context in which each rank has all weights: ZeRO-3 has cut them up."""
    weights = list(model.parameters())
    if not hasattr(weights[0], "ds_id"):
        return nullcontext()
    deepspeed = importlib.import_module("deepspeed")
    return deepspeed.zero.GatheredParameters(weights)


def held(model: nn.Module) -> int:
    """How many weights this rank keeps, between two steps."""
    weights = list(model.parameters())  # empty where ZeRO-3 keeps nothing but a part
    parts = [each.ds_tensor for each in weights if hasattr(each, "ds_tensor")]
    return sum(each.numel() for each in [*weights, *parts])


def momentum(optimizer: torch.optim.Optimizer) -> int:
    """How many numbers of momentum this rank keeps."""
    count = 0
    for state in optimizer.state.values():
        tensors = filter(torch.is_tensor, state.values())
        count += sum(each.numel() for each in tensors)
    return count


def run(way: str, more: dict, place: Place) -> tuple[dict, Tensor, Tensor]:
    """Train in one way: numbers, the weights at the end, and the change in the first step."""
    package, settings = WAYS[way]
    name = "plain" if way == "plain" else package
    module = importlib.import_module(f"via{name}")
    witness = Witness()
    dist.barrier()
    settings = settings | more.get(package, {})
    model, optimizer = module.train(settings, place, witness)
    kept = {"weights held": held(model), "momentum held": momentum(optimizer)}
    with gathered(model):
        weights = parameters_to_vector(model.parameters()).detach().clone()
    steps = [after - before for before, after in pairwise(witness.times)]
    kept |= {"steps": len(witness.times), "first": witness.first[:6], "ddp": witness.ddp}
    before, after = witness.weights
    change = after - before
    kept["microseconds"] = 1e6 * median(steps)
    kept["moved"] = change.norm().item()
    return kept, weights, change


def kept_run(way: str, more: dict, rank: int) -> dict:
    """In place of a way that cannot run here: the kept run with these settings, or the defaults."""
    package = WAYS[way][0]
    same = more.get(package) == KEPT["switches"].get(package)
    settings = "switched" if same else "defaults"
    kept = KEPT[settings][way]
    return kept | {"first": kept["first"][rank], "kept": True}


@record
def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS)[:4])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--settings", type=Path, help="a file: package → settings, as JSON")
    args = parser.parse_args()
    place = here(gpus=0)  # all ways train on the CPU
    torch.set_num_threads(1)
    hush()
    start(place)
    more = json.loads(args.settings.read_text()) if args.settings else {}

    runs = {}
    tensors = {}  # way → weights, and the first change
    times = {way: [] for way in args.ways}
    order = [way for way in args.ways if way == "plain" or has(WAYS[way][0])]
    for _ in range(args.rounds):
        for way in order:
            try:
                runs[way], *tensors[way] = run(way, more, place)
                times[way].append(runs[way].pop("microseconds"))
            except (TypeError, ValueError) as error:  # settings that the package does not know
                first_line = str(error).splitlines()[0]
                runs[way] = {"refused": first_line[:80], "steps": 0}
        order.reverse()  # so that none always comes first

    plain = tensors["plain"][0].clone()
    untrained = parameters_to_vector(network(Witness()).parameters())
    for way in args.ways:
        if way in tensors:
            gap = apart(tensors[way][0], plain, wrong=untrained)
            runs[way] |= {"same": gap == 0.0, "gap": gap, "microseconds": times[way]}
        elif way not in runs:
            runs[way] = kept_run(way, more, place.rank)
        if place.rank == 0:
            mark = ", kept, not run here" if "kept" in runs[way] else ""
            print(f"{way:10} {runs[way]['steps']} steps{mark}")
    if place.rank == 0:
        torch.save(tensors, "fourways.pt")
    report("fourways", place, runs={way: runs[way] for way in args.ways})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
