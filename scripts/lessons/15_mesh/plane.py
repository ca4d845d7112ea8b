"""One layer on a 2×2 mesh: data parallel down the columns, tensor parallel along the rows.

Run:  python plane.py
      torchrun --standalone --nproc-per-node=2 plane.py     # one row of two
      torchrun --standalone --nproc-per-node=4 plane.py     # two rows of two
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from counter import Call, Collectives
from devices import here, report, start
from yardstick import apart


def add_up(gradient: DTensor, goal: DTensor) -> tuple[DTensor, list[Call]]:
    """A gradient placed as `goal` is, and the collectives that this took."""
    with Collectives() as seen:
        placed = gradient.redistribute(placements=goal.placements)
        placed.to_local()
    return placed, seen.calls


def layer(mesh: DeviceMesh) -> dict:
    """y = x @ w and its gradients on the mesh: what was sent in which group, and is it right?"""
    torch.manual_seed(0)  # the same matrices on every rank
    x = torch.randn(8, 4, dtype=torch.float64)
    w = torch.randn(4, 6, dtype=torch.float64)
    dy = torch.randn(8, 6, dtype=torch.float64)  # what backward brings to this layer

    # The first placement is for "dp", the second for "tp".
    x_cut = distribute_tensor(x, mesh, [Shard(0), Replicate()])
    w_cut = distribute_tensor(w, mesh, [Replicate(), Shard(1)])
    dy_cut = distribute_tensor(dy, mesh, [Shard(0), Shard(1)])
    x_cut.requires_grad_()
    w_cut.requires_grad_()

    with Collectives() as seen:
        y_cut = x_cut @ w_cut
        y_cut.backward(dy_cut)
    w_grad, w_calls = add_up(w_cut.grad, w_cut)
    x_grad, x_calls = add_up(x_cut.grad, x_cut)

    calls = {
        "forward and backward": seen.calls,
        "w": w_calls,
        "x": x_calls,
    }
    gaps = {  # from one process's; wrong: rows in another order, half of the rows, of the columns
        "y": apart(y_cut.full_tensor(), x @ w, x.flip(0) @ w),
        "w": apart(w_grad.full_tensor(), x.T @ dy, x[:4].T @ dy[:4]),
        "x": apart(x_grad.full_tensor(), dy @ w.T, dy[:, :3] @ w[:, :3].T),
    }
    placements = {
        "y": str(y_cut.placements),
        "w": str(w_cut.grad.placements),
    }
    shapes = {
        "x": x_cut.to_local().shape,
        "w": w_cut.to_local().shape,
        "y": y_cut.to_local().shape,
    }
    return {"calls": calls, "gaps": gaps, "placements": placements, "shapes": shapes}


@record
def main() -> None:
    # gloo and the CPU everywhere: what matters is who talks to whom.
    place = here(gpus=0)
    start(place)
    columns = min(2, place.world_size)
    rows = place.world_size // columns
    mesh = init_device_mesh("cpu", (rows, columns), mesh_dim_names=("dp", "tp"))

    results = layer(mesh)
    calls = results["calls"]
    w_ranks = [call.ranks for call in calls["w"]]
    x_ranks = [call.ranks for call in calls["x"]]
    print(f"rank {place.rank}: w's gradient {w_ranks}, x's {x_ranks}\n", end="")
    report("plane", place, **results)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
