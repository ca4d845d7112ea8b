"""From one placement to another: which collective is it, and how many bytes?

And a number of which each rank holds only a part: what does `.item()` say?

Run:  python moves.py
      torchrun --standalone --nproc-per-node=2 moves.py
"""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode

from counter import Collectives
from devices import here, report, start
from yardstick import apart

PLACEMENTS = {
    "R": Replicate(),
    "S": Shard(0),
    "P": Partial(),
}


def begin_as(name: str, whole: Tensor, mesh: DeviceMesh) -> DTensor:
    """A DTensor that stands for `whole`, from parts that the ranks have already."""
    rank = mesh.get_local_rank()
    if name == "R":
        part = whole
    elif name == "S":
        part = whole.chunk(mesh.size())[rank]
    elif rank == 0:
        part = whole
    else:
        part = torch.zeros_like(whole)  # so that the parts add up to `whole`
    placement = PLACEMENTS[name]
    return DTensor.from_local(part, mesh, [placement])


def move(begin: str, end: str, whole: Tensor, mesh: DeviceMesh) -> dict:
    """What one redistribution sends, by our counter and by torch's, or why it is refused."""
    before = begin_as(begin, whole, mesh)
    placement = PLACEMENTS[end]
    refusal = ""
    right = False
    with Collectives() as seen, CommDebugMode() as by_torch:
        try:
            after = before.redistribute(placements=[placement])
            local = after.to_local() + 0  # `+ 0` waits for the numbers
        except RuntimeError as error:
            refusal = str(error)
    if not refusal:
        numbers = after.full_tensor().clone()  # from R to R it would be `whole` itself
        same_numbers = apart(numbers, whole, whole.flip(0)) == 0.0
        expected = begin_as(end, whole, mesh).to_local()
        right = same_numbers and local.shape == expected.shape
    return {
        "calls": seen.calls,
        "by torch": by_torch.get_total_counts(),
        "right": right,
        "refusal": refusal,
    }


def in_two_steps(whole: Tensor, mesh: DeviceMesh) -> dict:
    """P → S → R beside P → R: the same numbers?"""
    own = whole / (3 + mesh.get_local_rank())  # thirds, quarters: their sum has to be rounded
    partial = DTensor.from_local(own, mesh, [Partial()])
    at_once = partial.redistribute(placements=[Replicate()])
    expected = at_once.to_local().clone()  # in one process nothing would be copied
    with Collectives() as seen:
        pieces = partial.redistribute(placements=[Shard(0)])
        joined = pieces.redistribute(placements=[Replicate()])
        numbers = joined.to_local()
    other_order = expected.flip(0)  # as if the pieces had been exchanged
    equal = apart(numbers, expected, other_order) == 0.0
    return {"calls": seen.calls, "equal": equal}


def number(value: DTensor) -> float:
    """The number that a DTensor of one element stands for."""
    # BEGIN SOLUTION
    return value.full_tensor().item()
    # STUB return value.item()
    # END SOLUTION


@record
def main() -> None:
    # gloo and the CPU everywhere: what matters is who talks to whom.
    place = here(gpus=0)
    start(place)
    mesh = init_device_mesh("cpu", (place.world_size,))

    whole = torch.arange(8.0 * place.world_size, dtype=torch.float64)
    moves = {}
    for begin in PLACEMENTS:
        for end in PLACEMENTS:
            moves[f"{begin} → {end}"] = move(begin, end, whole, mesh)
    two_steps = in_two_steps(whole, mesh)

    # The losses of eight samples; each rank has computed some of them.
    samples = torch.arange(8.0)
    losses = distribute_tensor(samples, mesh, [Shard(0)])
    mean = losses.mean()
    items = {"placement": str(mean.placements[0]), "item": mean.item()}
    statistics = [mean, losses.sum(), losses.max()]
    told = [number(value) for value in statistics]
    expected = [samples.mean(), samples.sum(), samples.max()]
    truth = [value.item() for value in expected]
    if place.rank == 0:
        for way, outcome in moves.items():
            calls = [call.name for call in outcome["calls"]]
            refusal = outcome["refusal"]
            print(f"{way}  collectives: {calls} {refusal}")
    numbers = {
        "size": whole.nbytes,
        "moves": moves,
        "two_steps": two_steps,
        "items": items,
        "told": told,
        "truth": truth,
    }
    report("moves", place, **numbers)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
