"""Who computes where (devices.py), and how pictures become batches (loader.py)."""

import ast
import atexit
import itertools
import json
import os
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from torchvision import transforms

import loader
from course import rooms
from devices import Place, choose, device_name, here, low_precision, report, start
from loader import MEAN, STD, Pictures, as_is, augment, loading, normalise

CPU = torch.device("cpu")

# (GPUs, ranks on the machine): what every rank gets
POLICY = {
    (0, 1): [("cpu", "gloo")],
    (0, 2): [("cpu", "gloo"), ("cpu", "gloo")],
    (0, 3): [("cpu", "gloo"), ("cpu", "gloo"), ("cpu", "gloo")],
    (1, 1): [("cuda:0", "nccl")],
    (1, 2): [("cuda:0", "gloo"), ("cuda:0", "gloo")],
    (1, 3): [("cuda:0", "gloo"), ("cuda:0", "gloo"), ("cuda:0", "gloo")],
    (2, 1): [("cuda:0", "nccl")],
    (2, 2): [("cuda:0", "nccl"), ("cuda:1", "nccl")],
    (2, 3): [("cuda:0", "gloo"), ("cuda:1", "gloo"), ("cuda:0", "gloo")],
    (4, 1): [("cuda:0", "nccl")],
    (4, 2): [("cuda:0", "nccl"), ("cuda:1", "nccl")],
    (4, 3): [("cuda:0", "nccl"), ("cuda:1", "nccl"), ("cuda:2", "nccl")],
}


@pytest.mark.parametrize(("gpus", "ranks"), POLICY)
def test_choose(gpus, ranks):
    assert [choose(gpus, ranks, local_rank) for local_rank in range(ranks)] == POLICY[gpus, ranks]


@pytest.mark.parametrize(("gpus", "ranks"), list(itertools.product(range(10), range(1, 10))))
def test_choose_keeps_its_promises(gpus, ranks):
    devices, backends = zip(
        *(choose(gpus, ranks, local_rank) for local_rank in range(ranks)), strict=True
    )
    assert len(set(backends)) == 1, "ranks with different backends never meet"
    assert set(devices) <= {"cpu"} | {f"cuda:{gpu}" for gpu in range(gpus)}
    assert ("cpu" in devices) == (gpus == 0)
    assert len(set(devices)) == max(1, min(gpus, ranks)), (
        "no GPU stands idle while ranks share another"
    )
    if backends[0] == "nccl":
        assert len(set(devices)) == ranks, "nccl refuses two ranks on one GPU"


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        ((7, 5), torch.float16),
        ((8, 0), torch.bfloat16),
        ((9, 0), torch.bfloat16),
        (None, torch.bfloat16),
    ],
    ids=["T4", "A100", "H100", "CPU"],
)
def test_low_precision(capability, expected):
    assert low_precision(capability) == expected


@pytest.fixture
def environment(monkeypatch):
    """The environment without torchrun's variables. What a test writes into it does not stay."""
    ours = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    monkeypatch.setattr(
        os, "environ", {name: value for name, value in os.environ.items() if name not in ours}
    )
    return os.environ


def test_here_without_torchrun_is_rank_0_of_1(environment):
    device, backend = choose(torch.cuda.device_count(), 1, 0)
    assert here() == Place(0, 0, 1, torch.device(device), backend)
    assert here() == here(), "asking again changes nothing"
    dist.init_process_group(backend)
    try:
        assert (dist.get_rank(), dist.get_world_size()) == (0, 1)
        number = torch.tensor([7.0], device=device)
        dist.all_reduce(number)
        assert number.item() == 7
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize(
    ("gpus", "device", "backend"),
    [(0, "cpu", "gloo"), (1, "cuda:0", "gloo"), (2, "cuda:1", "nccl")],
)
def test_here_believes_torchrun(environment, monkeypatch, gpus, device, backend):
    """Rank 5 of 6 is the second of 2 on its machine: those 2 get by with the machine's GPUs."""
    current = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    environment.update(
        RANK="5", LOCAL_RANK="1", WORLD_SIZE="6", LOCAL_WORLD_SIZE="2", MASTER_PORT="29411"
    )
    assert here() == Place(5, 1, 6, torch.device(device), backend)
    assert current == ([device] if gpus else [])
    assert environment["MASTER_PORT"] == "29411"


def test_here_on_the_cpu_whatever_the_machine_has(environment, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: pytest.fail(f"took {device}"))
    environment.update(RANK="1", LOCAL_RANK="1", WORLD_SIZE="2", LOCAL_WORLD_SIZE="2")
    assert here(gpus=0) == Place(1, 1, 2, CPU, "gloo")


@pytest.mark.parametrize(
    ("device", "backend", "bound"),
    [("cpu", "gloo", None), ("cuda:1", "gloo", None), ("cuda:1", "nccl", torch.device("cuda:1"))],
)
def test_a_group_is_bound_to_a_gpu_on_nccl_alone(device, backend, bound):
    assert Place(1, 1, 2, torch.device(device), backend).bound == bound


@pytest.mark.parametrize(("asked", "limit"), [({}, 60), ({"seconds": 7}, 7)])
def test_start_makes_a_group_with_this_limit(environment, asked, limit):
    here()
    start(Place(0, 0, 1, CPU, "gloo"), **asked)
    try:
        assert dist.get_backend() == "gloo"
        assert (dist.get_rank(), dist.get_world_size()) == (0, 1)
        backend = dist.group.WORLD._get_backend(CPU)
        assert backend.options._timeout == timedelta(seconds=limit)
    finally:
        dist.destroy_process_group()


def test_start_binds_a_group_to_what_the_place_says(monkeypatch):
    """nccl cannot start here: what it would be started with is looked at instead."""
    made = {}
    monkeypatch.setattr(dist, "init_process_group", lambda backend, **more: made.update(more))
    gpu = torch.device("cuda:1")
    start(Place(1, 1, 2, gpu, "nccl"))
    assert made["device_id"] == gpu
    start(Place(1, 1, 2, gpu, "gloo"))
    assert made["device_id"] is None


def test_start_keeps_the_group_and_so_does_report(environment, monkeypatch, tmp_path):
    """Lessons 05 and 06 make their group themselves: report() keeps it for them."""
    monkeypatch.chdir(tmp_path)
    kept = []
    monkeypatch.setattr(atexit, "register", lambda clear: kept.extend(clear.__self__))
    place = here()
    start(place)
    assert kept == [dist.group.WORLD]
    dist.destroy_process_group()
    report("nobody", place)
    assert len(kept) == 1, "there is no group to keep"
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    report("raw", place)
    assert kept[1:] == [dist.group.WORLD]
    dist.destroy_process_group()


def test_every_rank_reports_into_its_own_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for rank in range(3):
        report("squares", Place(rank, 0, 3, CPU, "gloo"), square=rank * rank, list=[1.5, None])
    assert {path.name for path in tmp_path.iterdir()} == {
        "squares.json",
        "squares.rank1.json",
        "squares.rank2.json",
    }
    for rank, name in enumerate(["squares.json", "squares.rank1.json", "squares.rank2.json"]):
        read = json.loads((tmp_path / name).read_text())
        expected = {
            "rank": rank,
            "world_size": 3,
            "backend": "gloo",
            "square": rank * rank,
            "list": [1.5, None],
        }
        assert expected.items() <= read.items()
        assert read["torch"] == torch.__version__
        assert read["device"].startswith(f"CPU, {os.cpu_count()} cores")


def test_a_report_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    """A rank that is ended while it writes leaves the results that were there before."""
    monkeypatch.chdir(tmp_path)
    place = Place(0, 0, 1, CPU, "gloo")
    report("squares", place, square=4)
    before = (tmp_path / "squares.json").read_text()

    def ended_half_way(path, text):
        with path.open("w") as file:
            file.write(text[: len(text) // 2])
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", ended_half_way)
    with pytest.raises(KeyboardInterrupt):
        report("squares", place, square=9)
    assert (tmp_path / "squares.json").read_text() == before


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("model name\t: AMD EPYC 7B13\nmodel name\t: AMD EPYC 7B13\n", ", AMD EPYC 7B13"),
        ("processor\t: 0\nBogoMIPS\t: 50.00\n", ""),
    ],
    ids=["named", "not named"],
)
def test_a_cpu_has_its_processors_name_where_the_system_tells(monkeypatch, text, name):
    monkeypatch.setattr(Path, "read_text", lambda path: text)
    assert device_name(CPU) == f"CPU, {os.cpu_count()} cores{name}"


# What every training does; and when Python shuts down, the names of the threads that are left.
# What was registered first is called last.
TRAINED = """
import atexit
import gc
import torch
import torch.distributed as dist
from pathlib import Path

def tell():
    print([path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")])

atexit.register(tell)
{early}
import devices

place = devices.here()
devices.start(place)
from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(torch.nn.Linear(2, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
dist.destroy_process_group()
del model, optimizer
gc.collect()
tell()
"""
# devices.py as it would be without the import that is under test.
LATE = """
import sys, types
devices = types.ModuleType("devices")
text = Path(FILE).read_text()
assert text.count("import torch.distributed.nn.functional\\n") == 1
code = text.replace("import torch.distributed.nn.functional\\n", "")
sys.modules["devices"] = devices
exec(compile(code, FILE, "exec"), devices.__dict__)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are listed on Linux only")
@pytest.mark.parametrize("cured", [True, False])
def test_no_thread_of_gloo_outlives_its_group(tmp_path, cured):
    """One that does ends some processes with SIGABRT, after all their work (pytorch#190489).

    Without the import in devices.py it does: so this test can tell.
    """
    file = rooms.program("devices")
    early = "" if cured else LATE.replace("FILE", repr(str(file)))
    program = tmp_path / "trained.py"
    program.write_text(TRAINED.replace("{early}", early))
    done = subprocess.run(
        [sys.executable, program],
        env=os.environ | {"PYTHONPATH": str(file.parent), "CUDA_VISIBLE_DEVICES": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0 or not cured, done.stderr
    freed, ended = map(ast.literal_eval, done.stdout.splitlines())
    assert "pt_gloo_runloop" in freed, "start() keeps the group, so the model is not its last user"
    assert ("pt_gloo_runloop" not in ended) == cured, ended


# Programs that leave their group first: they have no DDP, or stay small, to be copied.
LEAVE_FIRST = {"first", "group", "scaffold", "raises"}
LEAVING = {"destroy_process_group", "end"}  # `end` is that of lesson 06
KEEPING = {"start", "report", "keep_group"}


def calls(tree: ast.AST) -> set[str]:
    """The names of all functions and methods that are called in it."""
    functions = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {getattr(each, "attr", getattr(each, "id", "")) for each in functions}


def leaves_too_early(block: ast.AST, kept: bool = False) -> bool:
    """Whether a group is left where no statement of this block, or around it, has kept it before.

    A function begins anew: what its callers have done is not looked at.
    """
    for statement in getattr(block, "body", []):
        function = isinstance(statement, ast.FunctionDef)
        if leaves_too_early(statement, kept and not function):
            return True
        leaves = isinstance(statement, ast.Expr) and calls(statement) & LEAVING
        if leaves and not kept:
            return True
        kept = kept or (not function and bool(calls(statement) & KEEPING))
    return False


def test_a_rank_keeps_its_group_before_it_leaves_it():
    """The default group. Or DDP may be the last to hold it: a hang on torch 2.10 (keep_group)."""
    assert leaves_too_early(ast.parse("if x:\n    dist.destroy_process_group()\n    report(1)"))
    assert leaves_too_early(ast.parse("start(1)\ndef f():\n    dist.destroy_process_group()"))
    assert not leaves_too_early(ast.parse("start(1)\nif x:\n    dist.destroy_process_group()"))
    trees = {file.stem: ast.parse(file.read_text()) for file in rooms.programs()}
    early = {name for name, tree in trees.items() if leaves_too_early(tree)}
    assert early == LEAVE_FIRST | {"curve", "unready"}  # which have no DDP


def test_a_group_of_its_own_that_ddp_has_is_kept_too():
    codes = {file.stem: file.read_text() for file in rooms.programs()}
    own = {name for name, code in codes.items() if re.search(r"Parallel\(.*process_group=", code)}
    assert own == {"uneven", "refused", "paramserver", "hybrid", "talk", "alike"}
    for name in own:
        made = codes[name].count("dist.new_group(")
        assert codes[name].count("    keep_group(") == made, name


def noise(n: int, height: int = 32, width: int = 32) -> torch.Tensor:
    """Pictures without a zero, so that padding can be told from a picture."""
    return torch.randint(
        1, 256, (n, 3, height, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_augment_keeps_shape_and_type(dtype):
    x = noise(7).to(dtype)
    before = x.clone()
    assert augment(x).shape == x.shape
    assert augment(x).dtype == dtype
    assert torch.equal(x, before), "the data set itself stays as it is"


@pytest.mark.parametrize("padding", [0, 1, 2])
def test_augment_makes_every_shift_and_mirror_and_nothing_else(padding):
    copies, height, width = (
        400,
        6,
        5,
    )  # a height unlike the width shows whether the two are mixed up
    pictures = noise(3, height, width)
    padded = torch.nn.functional.pad(pictures, (padding,) * 4)
    shifts = list(itertools.product(range(2 * padding + 1), repeat=2))
    views = [padded[:, :, top : top + height, left : left + width] for top, left in shifts]
    allowed = torch.stack(
        [*views, *(view.flip(-1) for view in views)], dim=1
    )  # (3, 2 × shifts, 3, height, width)
    torch.manual_seed(0)
    made = augment(pictures.repeat_interleave(copies, dim=0), padding).unflatten(0, (3, copies))
    for own, views in zip(made, allowed, strict=True):
        same = (own[:, None] == views[None]).flatten(2).all(2)  # (copies, views)
        assert (same.sum(1) == 1).all(), "each is exactly one view of its own picture"
        counts = same.sum(0)
        assert counts.min() > 0, "each view occurs"
        assert counts.max() < 5 * copies / len(views)
        assert abs(same[:, len(shifts) :].sum() / copies - 0.5) < 0.1, (
            "every second one is mirrored"
        )


def test_augment_without_padding_and_mirror_is_identity(monkeypatch):
    x = noise(5)
    monkeypatch.setattr(
        loader.torch, "rand", lambda *shape, device=None: torch.full(shape, 0.5, device=device)
    )
    assert torch.equal(augment(x, padding=0), x)
    monkeypatch.setattr(
        loader.torch, "rand", lambda *shape, device=None: torch.zeros(shape, device=device)
    )
    assert torch.equal(augment(x, padding=0), x.flip(-1))


def test_normalise():
    levels = [
        [round(255 * (mean - std)), round(255 * (mean + std))]
        for mean, std in zip(MEAN, STD, strict=True)
    ]
    x = torch.tensor(levels, dtype=torch.uint8)[None, :, None, :].repeat(
        4, 1, 32, 16
    )  # (4, 3, 32, 32)
    y = normalise(x)
    assert (y.shape, y.dtype) == (x.shape, torch.float32)
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert y.mean((0, 2, 3)).abs().max() < 0.01, "up to rounding to whole pixel values"
    assert (y.std((0, 2, 3)) - 1).abs().max() < 0.01
    theirs = transforms.Normalize(MEAN, STD)
    torch.testing.assert_close(normalise(noise(4)), theirs(noise(4) / 255), rtol=0, atol=1e-5)


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    """101 pictures whose label is their number."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cifar10.ATTACHED", tmp_path / "nothing attached")
    (tmp_path / "data").mkdir()
    torch.save(
        {"train": (noise(101), torch.arange(101)), "test": (noise(7), torch.arange(7))},
        "data/generated.pt",
    )
    return Pictures(train=True)


def test_pictures_come_as_whole_batches(pictures):
    assert (len(pictures), len(Pictures(False)), len(Pictures(True, 33))) == (101, 7, 33)
    indices = [5, 100, 0, 5, -1]
    x, y = pictures.__getitems__(indices)
    singles_x, singles_y = zip(*(pictures[index] for index in indices), strict=True)
    assert torch.equal(x, torch.stack(singles_x))
    assert torch.equal(y, torch.stack(singles_y))
    batches = list(DataLoader(pictures, 25, shuffle=True, collate_fn=as_is))
    assert [len(y) for _, y in batches] == [25, 25, 25, 25, 1]
    assert torch.equal(torch.cat([y for _, y in batches]).sort().values, pictures.y)
    for x, y in batches:
        assert (x.dtype, y.dtype) == (torch.uint8, torch.int64)
        assert torch.equal(x, pictures.x[y]), "each picture keeps its label"


def test_training_takes_whole_batches_only(pictures):
    batches = list(DataLoader(pictures, 25, **loading(0, CPU)))
    assert [len(y) for _, y in batches] == [25, 25, 25, 25]
    x, y = batches[-1]
    assert torch.equal(x, pictures.x[y])
    assert not loading(0, CPU)["pin_memory"]
    assert loading(3, torch.device("cuda:0")) == loading(3, CPU) | {"pin_memory": True}
    assert loading(3, CPU)["num_workers"] == 3


@pytest.mark.parametrize("world_size", [1, 2, 3, 150])
def test_batches_give_each_picture_to_exactly_one_rank(pictures, world_size):
    seen = []
    for rank in range(world_size):
        for x, y in pictures.batches(20, rank, world_size):
            assert torch.equal(x, pictures.x[y])
            assert len(y) <= 20
            seen += y.tolist()
    assert sorted(seen) == list(range(101))
    sizes = [len(y) for _, y in pictures.batches(20, 0, world_size)]
    assert sum(sizes) == -(-101 // world_size), "shares are as even as can be"
