"""Lesson 15 where its notebook does not look.

What the counter makes of every collective, which groups `grid.py` asks for on other grids, and
that the pictures show what they are given.
"""

import json
from pathlib import Path

import matplotlib
import pytest
import torch
from ranks import SEVERAL, launch

import grid
import tiles

matplotlib.use("Agg")

EVERY = """
import gc
import json
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from counter import Collectives

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
pair = dist.new_group([0, 2])
mesh = init_device_mesh("cpu", (size,))
x, y, z = torch.ones(4), torch.ones(4 * size), torch.zeros(4 * size)
seen = {}

def see(name, call):
    with Collectives() as counted:
        call()
    seen[name] = counted.calls

def training(model):
    def step():
        model(torch.ones(2, 6)).sum().backward()
    step()  # the first one also sets things up
    return step

def layers():
    return nn.Sequential(nn.Linear(6, 6, bias=False), nn.ReLU(), nn.Linear(6, 6, bias=False))

see("all_reduce", lambda: dist.all_reduce(x))
see("all_gather", lambda: dist.all_gather_into_tensor(y, x))
see("all_gather list", lambda: dist.all_gather([x.clone() for _ in range(size)], x))
see("reduce_scatter", lambda: dist.reduce_scatter_tensor(x, y))
see("all_to_all", lambda: dist.all_to_all_single(z, y))
counts = [[4, 0, 0], [0, 0, 0], [3, 2, 0]]  # rows that rank r sends to each
gets = [row[rank] for row in counts]
uneven = torch.ones(sum(counts[rank])), torch.zeros(sum(gets))
see("uneven", lambda: dist.all_to_all_single(uneven[1], uneven[0], gets, counts[rank]))
see("broadcast", lambda: dist.broadcast(x, src=0))
see("barrier", dist.barrier)
see("pair", lambda: dist.all_reduce(x, group=pair) if rank != 1 else None)
parts = {"R": (Replicate(), y), "S": (Shard(0), x), "P": (Partial(), y)}
for way in ("SR", "PR", "PS", "RS"):
    placement, part = parts[way[0]]
    tensor = DTensor.from_local(part, mesh, [placement])
    see(way, lambda: tensor.redistribute(placements=[parts[way[1]][0]]).to_local() + 0)
see("ddp", training(DistributedDataParallel(layers())))
sharded = layers()
fully_shard(sharded, mesh=mesh)
see("fsdp", training(sharded))
plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
see("tensor parallel", training(parallelize_module(layers(), mesh, plan)))
with open(f"seen{rank}.json", "w") as file:
    json.dump(seen, file)
del sharded
gc.collect()
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory) -> list[dict]:
    """The calls that the counter saw on each of three ranks."""
    folder: Path = tmp_path_factory.mktemp("counted")
    (folder / "every.py").write_text(EVERY)
    launch(folder, 3, "every.py")
    return [json.loads((folder / f"seen{rank}.json").read_text()) for rank in range(3)]


def test_the_counter_knows_name_order_bytes_and_ranks(seen) -> None:
    everyone = [0, 1, 2]
    weights = 2 * 6 * 6 * 4
    expected = {
        "all_reduce": [["all_reduce", 16, everyone]],
        "all_gather": [["all_gather", 48, everyone]],
        "all_gather list": [["all_gather", 48, everyone]],
        "reduce_scatter": [["reduce_scatter", 48, everyone]],
        "all_to_all": [["all_to_all", 48, everyone]],
        "broadcast": [["broadcast", 16, everyone]],
        "barrier": [],
        "SR": [["all_gather", 48, everyone]],
        "PR": [["all_reduce", 48, everyone]],
        "PS": [["reduce_scatter", 48, everyone]],
        "RS": [],
        "tensor parallel": [["all_reduce", 2 * 6 * 4, everyone]],
    }
    for rank, calls in enumerate(seen):
        for name, wanted in expected.items():
            assert calls[name] == wanted, (rank, name)
        assert calls["pair"] == ([] if rank == 1 else [["all_reduce", 16, [0, 2]]])
        assert ["all_reduce", weights, everyone] in calls["ddp"]
        assert sum(call[0] == "all_reduce" for call in calls["ddp"]) == 1
        assert calls["fsdp"][0] == ["all_gather", weights, everyone]
        assert calls["fsdp"][-1] == ["reduce_scatter", weights, everyone]


def test_an_uneven_all_to_all_counts_what_a_rank_hands_in(seen) -> None:
    assert [rank["uneven"][0][1] for rank in seen] == [16, 0, 20]


@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (2, 4), (3, 2), (1, 3), (4, 1)])
def test_lines_are_the_rows_and_columns_of_the_mesh(rows: int, columns: int) -> None:
    numbers = torch.arange(rows * columns).view(rows, columns)
    assert grid.lines(rows, columns) == {"row": numbers.tolist(), "column": numbers.T.tolist()}


def test_a_part_of_a_matrix_is_drawn_where_it_belongs() -> None:
    _, ax = tiles.plt.subplots()
    tiles.draw_part(ax, 3, [[6.0], [8.0]], rank=1, summand=False)
    places = {text.get_text(): text.get_position() for text in ax.texts}
    assert places == {"6": (4.5, -0.5), "8": (4.5, -1.5)}
    tiles.plt.close("all")


def test_one_process_gets_the_same_numbers_and_sends_nothing_that_matters(tmp_path) -> None:
    names = ["grid", "blocks", "moves", "plane", "source"]
    launch(tmp_path, 1, SEVERAL, *names)
    told = {}
    for number, name in enumerate(names):
        told[name] = json.loads((tmp_path / f"{number}.json").read_text())
    assert told["grid"]["sums"]["by hand"] == {"row": 1, "column": 1}
    assert max(told["blocks"]["gaps"].values()) <= 1e-12
    assert all(layer["equal"] for layer in told["blocks"]["layers"].values())
    assert told["moves"]["told"] == told["moves"]["truth"]
    assert max(told["plane"]["gaps"].values()) <= 1e-12
    assert told["source"]["dealt"]["Shard(0)"]["holds"] == [0, 1, 2, 3]
