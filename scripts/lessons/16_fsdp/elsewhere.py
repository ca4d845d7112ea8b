"""Two ranks train with FSDP and save. More ranks go on, and one alone. Do all of them agree?

Run:  python elsewhere.py
      torchrun --standalone --nproc-per-node=3 elsewhere.py
"""

import shutil
import warnings
from pathlib import Path

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.optim import AdamW, Optimizer

from devices import Place, here, report, start
from versus import batches, make, shard, whole
from yardstick import apart

FOLDER = Path("elsewhere")


def states(model: nn.Module, optimizer: Optimizer) -> dict:
    """What is saved and loaded: both under the names of the parameters."""
    of_model, of_optimizer = get_state_dict(model, optimizer)
    return {"model": of_model, "optimizer": of_optimizer}


def train(model: nn.Module, optimizer: Optimizer, place: Place, ranks: int) -> None:
    """Five steps; the first `ranks` ranks share each batch."""
    for x, y in batches(place, ranks):
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()


def load(model: nn.Module, optimizer: Optimizer, alone: bool = False) -> None:
    """Each rank reads what it needs from the files, whichever rank wrote it."""
    state = states(model, optimizer)
    dcp.load(state, checkpoint_id=FOLDER, no_dist=alone)
    set_state_dict(
        model,
        optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
    )


def sharded(place: Place, mesh: DeviceMesh) -> tuple[nn.Module, Optimizer]:
    model = shard(make(place), mesh)
    optimizer = AdamW(model.parameters(), lr=1e-2)
    return model, optimizer


def head_part(model: nn.Module) -> list[int]:
    """The shape of what this rank has of the head's weight."""
    part = model.head.weight.to_local()
    return list(part.shape)


@record
def main() -> None:
    place = here(gpus=0)  # gloo, on the CPU: files are written from there anyway
    start(place)
    # It warns of a load without the others, which is meant here.
    warnings.filterwarnings("ignore", "torch.distributed is disabled")
    if place.rank == 0:
        shutil.rmtree(FOLDER, ignore_errors=True)
    writers = min(2, place.world_size)
    # Every rank makes both meshes, though the first ranks alone use the second (lesson 15).
    everybody = DeviceMesh("cpu", list(range(place.world_size)))
    first = DeviceMesh("cpu", list(range(writers)))
    later, later_optimizer = sharded(place, everybody)  # for those who go on
    shapes = {}
    ends = {}  # all parameters after ten steps, by the number of ranks that took the last five
    if place.rank < writers:
        model, optimizer = sharded(place, first)
        train(model, optimizer, place, writers)
        saved = whole(model)
        dcp.save(states(model, optimizer), checkpoint_id=FOLDER, process_group=first.get_group())
        train(model, optimizer, place, writers)
        moved = whole(model) - saved  # what would have happened to the weights
        shapes[writers] = head_part(model)
    dist.barrier()

    load(later, later_optimizer)
    train(later, later_optimizer, place, place.world_size)
    ends[place.world_size] = whole(later)
    shapes[place.world_size] = head_part(later)
    dist.barrier()

    if place.rank == 0:
        model = make(place)
        optimizer = AdamW(model.parameters(), lr=1e-2)
        load(model, optimizer, alone=True)
        train(model, optimizer, place, ranks=1)
        ends[1] = whole(model)
        shapes[1] = list(model.head.weight.shape)
    gaps = {}
    if place.rank < writers:
        for ranks, end in ends.items():
            gaps[ranks] = apart(end - saved, moved, wrong=0 * moved)
    files = sorted(path.name for path in FOLDER.iterdir())
    dist.barrier()
    if place.rank == 0:
        shutil.rmtree(FOLDER)
    report("elsewhere", place, gaps=gaps, shapes=shapes, files=files)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
