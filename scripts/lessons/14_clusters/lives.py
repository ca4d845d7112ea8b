"""A training that a cluster may start again: it goes on from its newest whole checkpoint.

Run:  python lives.py
      torchrun --standalone --nproc-per-node=2 lives.py
"""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector

from checkpoint import load_of_rank, newest, path_of, prune, save, usable
from devices import Place, here, report, start

ROWS = 64  # of one rank in one step


def batch(step: int, place: Place) -> tuple[Tensor, Tensor]:
    """This rank's rows (64, 8) and what to learn of them (64, 1); the step alone decides them."""
    generator = torch.Generator().manual_seed(1000 * step + place.rank)
    x = torch.randn(ROWS, 8, generator=generator, dtype=torch.float64)
    y = x.sin().sum(dim=1, keepdim=True)
    return x.to(place.device), y.to(place.device)


def take_up(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path, place: Place) -> int:
    """Load the newest checkpoint, if there is one; how many steps it has.

    Only rank 0 looks which one that is: the machines share the folder, but one of them may see a
    new file later than another.
    """
    chosen = [None]
    if place.rank == 0:
        folder.mkdir(exist_ok=True)
        checkpoints = usable(folder, 0, place.world_size)
        chosen[0] = newest([checkpoints])
    dist.broadcast_object_list(chosen)
    if chosen[0] is None:
        return 0
    step, world_size = chosen[0]
    state = load_of_rank(folder, step, 0, world_size, place.device)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return step


def write_down(
    model: nn.Module, optimizer: torch.optim.Optimizer, done: int, folder: Path, place: Place
) -> None:
    """On rank 0: save what is equal on all ranks, and delete all but the newest two files."""
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    path = path_of(folder, done, 0, place.world_size)
    save(state, path)
    prune(folder, 0, place.world_size)


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("checkpoints"))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", type=int, default=5, help="steps from checkpoint to checkpoint")
    parser.add_argument("--pause", type=float, default=0.1, help="seconds added to a step")
    args = parser.parse_args()
    start(place)

    torch.manual_seed(0)
    layers = [nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)]
    model = nn.Sequential(*layers)
    model.to(place.device, torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    begun = take_up(model, optimizer, args.folder, place)
    ddp_model = DistributedDataParallel(model)
    if place.rank == 0:
        # Slurm counts how often it has started this job again.
        restarts = int(os.environ.get("SLURM_RESTART_COUNT", 0))
        world = "1 rank"
        if place.world_size > 1:
            world = f"{place.world_size} ranks"
        print(f"start number {restarts + 1}, {world}, at step {begun}", flush=True)

    losses = []
    for step in range(begun, args.steps):
        x, y = batch(step, place)
        optimizer.zero_grad()
        output = ddp_model(x)
        loss = nn.functional.mse_loss(output, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        time.sleep(args.pause)

        done = step + 1
        if place.rank == 0 and done % args.every == 0:
            write_down(model, optimizer, done, args.folder, place)
            print(f"step {done} is saved, loss {losses[-1]:.4f}", flush=True)

    weights = parameters_to_vector(model.parameters())
    report("lives", place, begun=begun, losses=losses, weights=weights.tolist())
    # No machine leaves while another one still needs it.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
