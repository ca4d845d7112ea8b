"""One matrix product on two ranks, its matrices cut in different ways: who needs to talk?

Then a network of two layers, with its weights cut in all nine ways.

Run:  python blocks.py
      torchrun --standalone --nproc-per-node=2 blocks.py
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from counter import Collectives
from devices import here, report

PLACEMENTS = {"R": Replicate(), "S(0)": Shard(0), "S(1)": Shard(1)}
PRODUCTS = [("S(0)", "R"), ("R", "S(1)"), ("S(1)", "S(0)"), ("S(0)", "S(0)"), ("S(0)", "S(1)")]


def whole_numbers(rows: int, columns: int) -> Tensor:
    """1, 2, 3, … in float64: sums of these are exact in any order."""
    return torch.arange(1.0, rows * columns + 1, dtype=torch.float64).view(rows, columns)


def cut(matrix: Tensor, mesh: DeviceMesh, name: str) -> DTensor:
    """This rank's part of a matrix that every rank holds; nothing is sent."""
    return distribute_tensor(matrix, mesh, [PLACEMENTS[name]], src_data_rank=None)


def product(x: Tensor, w: Tensor, names: tuple[str, str], mesh: DeviceMesh) -> dict:
    """What each rank holds of x, w and x @ w, and the collectives that the product needed."""
    x_cut = cut(x, mesh, names[0])
    w_cut = cut(w, mesh, names[1])
    with Collectives() as seen:
        y_cut = x_cut @ w_cut
    gap = (y_cut.full_tensor() - x @ w).abs().max() / (x @ w).abs().max()
    return {
        "x": x_cut.to_local().tolist(),
        "w": w_cut.to_local().tolist(),
        "y": y_cut.to_local().tolist(),
        "placement": str(y_cut.placements[0]),
        "calls": seen.calls,
        "gap": gap.item(),
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
    kept = first_cut.to_local().numel() + second_cut.to_local().numel()
    return {
        "calls": [call.name for call in seen.calls],
        "kept": kept / (first.numel() + second.numel()),
        "equal": torch.equal(y, (x @ first).relu() @ second),
    }


@record
def main() -> None:
    place = here()
    # gloo and the CPU everywhere: what matters is who talks to whom.
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    mesh = init_device_mesh("cpu", (place.world_size,))

    small = {}
    large_gaps = {}
    torch.manual_seed(0)  # the same matrices on every rank
    x = torch.randn(96, 64, dtype=torch.float64)
    w = torch.randn(64, 32, dtype=torch.float64)
    for names in PRODUCTS:
        title = f"{names[0]} @ {names[1]}"
        small[title] = product(whole_numbers(2, 2), whole_numbers(2, 2) + 4, names, mesh)
        large_gaps[title] = product(x, w, names, mesh)["gap"]
        if place.rank == 0:
            calls = [call.name for call in small[title]["calls"]]
            print(f"{title:11} → {small[title]['placement']:14} collectives: {calls}")

    layers = {}
    for first in PLACEMENTS:
        for second in PLACEMENTS:
            layers[f"{first} {second}"] = two_layers((first, second), mesh)
    report("blocks", place, products=small, gaps=large_gaps, layers=layers)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
