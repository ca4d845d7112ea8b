"""Whole files that do not fit: names from inside DDP, and tensors of a GPU that is not here.

Run:  python misfit.py                                              # one process
      torchrun --standalone --nproc-per-node=2 misfit.py            # two ranks
"""

from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report, start
from refuse import complaint

ELSEWHERE = f"cuda:{max(7, torch.cuda.device_count())}"  # a GPU that this machine does not have


def names_under_ddp(place: Place) -> tuple[dict[str, list[str]], dict[str, str], str]:
    """Names in two states of a DDP model; and what a model without DDP says when it loads them.

    The last is the whole message about the names that do not fit.
    """
    inner = nn.Linear(3, 2).to(place.device)
    ddp_model = DistributedDataParallel(inner)
    model = nn.Linear(3, 2)
    states = {
        "ddp_model": ddp_model.state_dict(),
        "ddp_model.module": ddp_model.module.state_dict(),
    }
    names = {saved: list(state) for saved, state in states.items()}
    loads = {saved: complaint(model.load_state_dict, state) for saved, state in states.items()}
    renamed = dict(states["ddp_model"])
    consume_prefix_in_state_dict_if_present(renamed, "module.")
    loads["prefix removed"] = complaint(model.load_state_dict, renamed)
    message = complaint(model.load_state_dict, states["ddp_model"], full=True)
    return names, loads, message


def from_elsewhere(path: Path, device: torch.device) -> dict[str, str]:
    """A file knows the device of each tensor. This one names a GPU that is not here.

    What loading it comes to without `map_location`, and the device that it comes to with it.
    """
    torch.serialization.register_package(
        0, lambda storage: ELSEWHERE, lambda storage, location: None
    )
    torch.save(torch.ones(3), path)
    without = complaint(torch.load, path, weights_only=True)
    tensor = torch.load(path, weights_only=True, map_location=device)
    return {"without": without, "with": str(tensor.device)}


@record
def main() -> None:
    place = here()
    start(place)
    names, loads, message = names_under_ddp(place)
    where = from_elsewhere(Path(f"elsewhere-{place.rank}.pt"), place.device)
    if place.rank == 0:
        for saved in names:
            joined = ", ".join(names[saved])
            print(f"names in {saved}: {joined}")
    report("misfit", place, names=names, loads=loads, where=where, said=message)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
