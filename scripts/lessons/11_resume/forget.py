"""Resume a training in the middle, each time without one part of its state. What does each part do?

Run:  python forget.py                                              # one process
      torchrun --standalone --nproc-per-node=2 forget.py            # two ranks
"""

import argparse
import copy
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from checkpoint import load, load_of_rank, path_of, save
from devices import Place, here, report, start
from learner import Training

STOP = 28  # steps before the stop, eight of them in the second epoch
AFTER = 12  # steps after it
# What is forgotten → the names in the state that stay as in a new process.
PARTS = {
    "nothing": [],
    "model": ["model"],
    "optimizer": ["optimizer"],
    "scheduler": ["scheduler"],
    "epoch": ["epoch"],
    "step": ["step"],
    "random numbers": ["random"],
    "rank 1's random numbers": [],  # only rank 0's were saved, and all take those
    "buckets": [],  # DDP packs the gradients of the first step as in a new process
}


def resumed(part: str, place: Place, epochs: int, folder: Path) -> list[float]:
    """The losses of all steps when the training goes on from the file, and forgets one part."""
    training = Training(place, epochs)  # as new as in a new process
    # A copy: a state holds the model's own tensors, and the step that `restore` makes and throws
    # away changes BatchNorm's statistics.
    fresh = copy.deepcopy(training.state())
    state = load_of_rank(folder, STOP, place.rank, place.world_size, place.device)
    for name in PARTS[part]:
        state[name] = fresh[name]
    if part == "rank 1's random numbers":
        state["random"] = load(path_of(folder, STOP, 0, place.world_size))["random"]
    training.restore(state, settle=part != "buckets")
    for done in training.steps():
        if done == STOP + AFTER:
            break
    return training.losses


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    args = parser.parse_args()
    place = here()
    start(place)
    folder = Path("forget")
    folder.mkdir(exist_ok=True)

    # The training that is never stopped, and leaves a file on its way.
    whole = Training(place, args.epochs)
    for done in whole.steps():
        if done == STOP:
            save(whole.to_save(), path_of(folder, STOP, place.rank, place.world_size))
    # Rank 0's file is there before another rank reads it.
    dist.all_reduce(torch.zeros(1, device=place.device))

    curves = {}
    for part in args.parts:
        losses = resumed(part, place, args.epochs, folder)
        gap = max(abs(a - b) for a, b in zip(losses, whole.losses, strict=False))
        outcome = f"losses differ by {gap:.1e}" if gap else "same bits"
        if place.rank == 0:
            print(f"forgot {part + ':':25} {outcome}")
        curves[part] = losses
    report("forget", place, losses=whole.losses, curves=curves, stop=STOP)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
