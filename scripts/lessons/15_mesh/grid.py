"""Four ranks as a grid: the groups of its rows and columns, made by hand and then by a mesh.

Rank r brings the number 10^r, so the digits of a sum tell whose numbers are in it.

Run:  python grid.py
      torchrun --standalone --nproc-per-node=2 grid.py     # one row of two
      torchrun --standalone --nproc-per-node=4 grid.py     # two rows of two
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report, start

LIMIT = timedelta(seconds=60)


def lines(rows: int, columns: int) -> dict[str, list[list[int]]]:
    """The ranks of each row, and of each column, of a grid that is filled row by row."""
    of_rows = []
    for row in range(rows):
        members = [row * columns + column for column in range(columns)]
        of_rows.append(members)
    of_columns = []
    for column in range(columns):
        members = [row * columns + column for row in range(rows)]
        of_columns.append(members)
    return {"row": of_rows, "column": of_columns}


def groups_by_hand(rows: int, columns: int) -> dict[str, dist.ProcessGroup]:
    """The two groups of this rank."""
    own = {}
    for line, members_of_lines in lines(rows, columns).items():
        for members in members_of_lines:
            # Every rank calls this for every group, also for those that it does not belong to.
            group = dist.new_group(members, timeout=LIMIT)
            if dist.get_rank() in members:
                own[line] = group
    return own


def groups_by_mesh(rows: int, columns: int) -> tuple[DeviceMesh, dict[str, dist.ProcessGroup]]:
    """The mesh, and the same two groups from it."""
    mesh = init_device_mesh("cpu", (rows, columns), mesh_dim_names=("dp", "tp"))
    # Along "tp" the column changes: these ranks are a row. Along "dp" the row changes.
    row = mesh["tp"].get_group()
    column = mesh["dp"].get_group()
    return mesh, {"row": row, "column": column}


def sums(groups: dict[str, dist.ProcessGroup]) -> dict[str, int]:
    """What this rank gets when every group adds up the numbers 10^rank of its ranks."""
    totals = {}
    for line, group in groups.items():
        number = torch.tensor(10 ** dist.get_rank())
        dist.all_reduce(number, group=group)
        totals[line] = number.item()
    return totals


@record
def main() -> None:
    # gloo and the CPU everywhere: what matters is who talks to whom.
    place = here(gpus=0)
    columns = min(2, place.world_size)
    rows = place.world_size // columns
    if rows * columns != place.world_size:
        raise ValueError(f"{place.world_size} ranks do not fill rows of two")
    start(place)

    by_hand = groups_by_hand(rows, columns)
    mesh, by_mesh = groups_by_mesh(rows, columns)
    coordinate = list(mesh.get_coordinate())
    own = {}
    for line, group in by_mesh.items():
        own[line] = dist.get_process_group_ranks(group)
    hand_sums = sums(by_hand)
    mesh_sums = sums(by_mesh)

    where = f"rank {place.rank} is at {coordinate}"
    groups = f"row {own['row']}, column {own['column']}"
    print(f"{where}: {groups}, sums {hand_sums}\n", end="")
    numbers = {
        "mesh": mesh.mesh.tolist(),
        "coordinate": coordinate,
        "groups": own,
        "sums": {"by hand": hand_sums, "by mesh": mesh_sums},
    }
    report("grid", place, **numbers)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
