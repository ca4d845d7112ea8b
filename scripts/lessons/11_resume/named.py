"""A real model and its optimizer through DCP: what are things called, and who writes what?

Run:  python named.py                                              # one process
      torchrun --standalone --nproc-per-node=2 named.py            # two ranks
"""

import shutil
from collections import Counter
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start
from learner import Training
from yardstick import apart

FOLDER = Path("named")
STOP = 10  # steps before the checkpoint


def state_of(training: Training) -> dict[str, dict]:
    """Model and optimizer, each tensor under the name of its parameter, without `module.`."""
    model, optimizer = get_state_dict(training.ddp_model, training.optimizer)
    return {"model": model, "optimizer": optimizer}


def tensors(training: Training) -> list[torch.Tensor]:
    """The model's tensors and the momentum, as they are in use."""
    momentum = [state["momentum_buffer"] for state in training.optimizer.state.values()]
    return [*training.model.state_dict().values(), *momentum]


@record
def main() -> None:
    place = here()
    start(place)
    if place.rank == 0:
        shutil.rmtree(FOLDER, ignore_errors=True)

    training = Training(place)
    for done in training.steps():
        if done == STOP:
            break
    # DCP writes what all ranks have once, no matter from which rank: so let all have rank 0's.
    for buffer in training.model.buffers():
        dist.broadcast(buffer, src=0)
    dcp.save(state_of(training), checkpoint_id=FOLDER)
    # The list of contents says which file holds a tensor, and how many bytes of it.
    reader = dcp.FileSystemReader(FOLDER)
    metadata = reader.read_metadata()
    entries = metadata.storage_data.values()
    files = Counter(entry.relative_path for entry in entries)
    listed = sum(entry.length for entry in entries)
    there = sum(path.stat().st_size for path in FOLDER.glob("*.distcp"))

    # What is loaded goes into the tensors of the state that is there: so a new one comes first.
    again = Training(place, seed=1)
    state = state_of(again)
    fresh = [tensor.clone() for tensor in tensors(again)]
    dcp.load(state, checkpoint_id=FOLDER)
    set_state_dict(
        again.ddp_model,
        again.optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
    )
    # 0.0: the same bits. What the new one had before is far off.
    off = apart(tensors(again), tensors(training), wrong=fresh)

    usual = list(training.optimizer.state_dict()["state"])
    names = list(state["optimizer"]["state"])
    if place.rank == 0:
        print(f"{len(fresh)} tensors back, all bits equal: {off == 0}")
    sizes = {"listed": listed, "there": there}
    report("named", place, usual=usual, names=names, off=off, files=files, **sizes)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
