"""One matrix product on two ranks, its matrices cut in different ways: who needs to talk?

Then a network of two layers, with its weights cut in all nine ways.

Run:  python blocks.py
      torchrun --standalone --nproc-per-node=2 blocks.py
"""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from counter import Collectives
from devices import here, report, start
from yardstick import apart

PLACEMENTS = {
    "R": Replicate(),
    "S(0)": Shard(0),
    "S(1)": Shard(1),
}
# How x and w are cut.
PRODUCTS = [
    ("S(0)", "R"),
    ("R", "S(1)"),
    ("S(1)", "S(0)"),
    ("S(0)", "S(0)"),
    ("S(0)", "S(1)"),
]


def whole_numbers(rows: int, columns: int) -> Tensor:
    """1, 2, 3, … in float64: sums of these are exact in any order."""
    count = rows * columns
    numbers = torch.arange(1, count + 1, dtype=torch.float64)
    return numbers.view(rows, columns)


def cut(matrix: Tensor, mesh: DeviceMesh, name: str) -> DTensor:
    """This rank's part of a matrix that every rank holds; nothing is sent."""
    placement = PLACEMENTS[name]
    return distribute_tensor(matrix, mesh, [placement], src_data_rank=None)


def product(x: Tensor, w: Tensor, names: tuple[str, str], mesh: DeviceMesh) -> dict:
    """What each rank holds of x, w and x @ w, and the collectives that the product needed."""
    x_cut = cut(x, mesh, names[0])
    w_cut = cut(w, mesh, names[1])
    with Collectives() as seen:
        y_cut = x_cut @ w_cut
    y = x @ w
    half = len(w) // 2
    one_part = x[:, :half] @ w[:half]  # of a sum that nobody has added up
    return {
        "x": x_cut.to_local().tolist(),
        "w": w_cut.to_local().tolist(),
        "y": y_cut.to_local().tolist(),
        "placement": str(y_cut.placements[0]),
        "calls": seen.calls,
        "gap": apart(y_cut.full_tensor(), y, one_part),
    }


def two_layers(names: tuple[str, str], mesh: DeviceMesh) -> dict:
    """relu(x @ first) @ second, wanted whole on every rank; `names` say how the weights are cut."""
    x = whole_numbers(2, 4) - 4
    first = whole_numbers(4, 8) % 5 - 2
    second = whole_numbers(8, 4) % 7 - 3
    x_cut = cut(x, mesh, "R")
    first_cut = cut(first, mesh, names[0])
    second_cut = cut(second, mesh, names[1])
    with Collectives() as seen:
        y_cut = (x_cut @ first_cut).relu() @ second_cut
        y = y_cut.full_tensor()
    calls = [call.name for call in seen.calls]
    kept = first_cut.to_local().numel() + second_cut.to_local().numel()
    numbers = first.numel() + second.numel()
    expected = (x @ first).relu() @ second
    without_relu = x @ first @ second
    equal = apart(y, expected, without_relu) == 0.0
    return {"calls": calls, "kept": kept / numbers, "equal": equal}


@record
def main() -> None:
    # gloo and the CPU everywhere: what matters is who talks to whom.
    place = here(gpus=0)
    start(place)
    mesh = init_device_mesh("cpu", (place.world_size,))

    small_x = whole_numbers(2, 2)
    small_w = whole_numbers(2, 2) + 4
    torch.manual_seed(0)  # the same matrices on every rank
    large_x = torch.randn(96, 64, dtype=torch.float64)
    large_w = torch.randn(64, 32, dtype=torch.float64)
    small = {}
    large_gaps = {}
    for names in PRODUCTS:
        title = " @ ".join(names)
        outcome = product(small_x, small_w, names, mesh)
        small[title] = outcome
        large = product(large_x, large_w, names, mesh)
        large_gaps[title] = large["gap"]
        if place.rank == 0:
            placement = outcome["placement"]
            calls = [call.name for call in outcome["calls"]]
            print(f"{title:11} → {placement:14} collectives: {calls}")

    layers = {}
    for first in PLACEMENTS:
        for second in PLACEMENTS:
            names = (first, second)
            layers[f"{first} {second}"] = two_layers(names, mesh)
    report("blocks", place, products=small, gaps=large_gaps, layers=layers)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
