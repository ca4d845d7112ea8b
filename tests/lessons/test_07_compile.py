"""Lesson 07 where its notebook does not look: what a step, a mended function and DDP compute.

The notebook compares the ways with each other; here each is compared with float64, by hand.
"""

import copy
import runpy
import shutil
import sys

import adam
import pytest
import torch
import torch.distributed as dist
from ranks import launch, launch_all
from torch import nn
from torch._dynamo.backends.distributed import DDPOptimizer

import breaks
import fusion
import model
import speed
import warmup
import wrapped
from course import rooms

STEPS = 3

# One launch: `wrapped` in the one way that compiles nothing, the kernels written by hand, and new
# pages of memory before and after `keep_memory`, which holds for the whole process.
PROGRAM = f"""
import sys
import handmade  # first of all: it tells Triton to interpret
import fusion
import torch
import wrapped

sys.argv = ["wrapped", "--steps", "{STEPS + 1}"]
wrapped.ORDERS = {{"Network": ["wrap"]}}
made = []


class Kept(wrapped.Training):
    def __init__(self, kind, order, batches, place):
        super().__init__(kind, order, batches, place)
        self.all = batches
        self.rank = place.rank
        made.append(self)


wrapped.Training = Kept
wrapped.main()
x = torch.randn(2**24)
before = fusion.faults(lambda: fusion.chain(x))
fusion.keep_memory()
after = min(fusion.faults(lambda: fusion.chain(x)) for _ in range(4))
found = {{"batches": made[0].all, "weights": made[0].weights(), "faults": (before, after)}}
torch.save(found, f"rank{{made[0].rank}}.pt")
handmade.main()
"""


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The launch on two ranks."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "program.py").write_text(PROGRAM)
    return launch(folder, 2, "program.py")


def test_ddp_takes_the_mean_of_batches_that_differ(two):
    first = torch.load(two.folder / "rank0.pt")
    second = torch.load(two.folder / "rank1.pt")
    assert not torch.equal(first["batches"], second["batches"]), "each rank has its own"
    torch.manual_seed(0)
    model = wrapped.layers().double()
    start = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x in torch.cat([first["batches"], second["batches"]], dim=1).double():
        optimizer.zero_grad()
        (model(x) - x).square().mean().backward()
        optimizer.step()
    right = nn.utils.parameters_to_vector(model.parameters()).detach()
    way = (right - start).norm()
    for rank in (first, second):
        assert (rank["weights"] - right).norm() < 1e-3 * way


@pytest.mark.skipif(sys.platform != "linux", reason="keep_memory is for Linux's C library")
def test_a_cpu_keeps_the_memory_of_old_tensors_for_new_ones(two):
    """64 MiB, the size in the lesson: the C library never keeps so much of its own accord."""
    for rank in range(2):
        before, after = torch.load(two.folder / f"rank{rank}.pt")["faults"]
        assert after * 10 < before, "the memory is kept"


def test_the_kernels_written_by_hand_equal_eager_mode(two):
    for report in two.reports("handmade", 2):
        assert report["difference"] < 1e-6
        assert report["gap"] < 1e-6, "that of the exercise"
        assert report["programs"] == 5


@pytest.mark.parametrize("way", ["eager", "channels last", "compiled"])
def test_a_step_is_one_of_sgd(way, monkeypatch):
    torch.manual_seed(0)
    model = speed.network()
    right = copy.deepcopy(model).double()
    monkeypatch.setattr(speed, "network", lambda: model)
    x = torch.randn(16, 3, 32, 32)
    y = torch.randint(10, (16,))
    step = speed.training(speed.WAYS[way], x, y, speed.Counting("eager"))
    optimizer = torch.optim.SGD(right.parameters(), 0.05)
    for _ in range(STEPS):
        step()
        optimizer.zero_grad()
        nn.functional.cross_entropy(right(x.double()), y).backward()
        optimizer.step()
    for parameter, expected in zip(model.parameters(), right.parameters(), strict=True):
        torch.testing.assert_close(parameter.double(), expected, rtol=1e-3, atol=1e-5)


def test_six_operations_read_and_write_twelve_tensors():
    x = torch.randn(1000)
    with fusion.Traffic() as traffic:
        y = fusion.chain(x)
    right = ((x.double() * 1.5 + 0.5).abs().sqrt() - 1).clamp(min=0)
    torch.testing.assert_close(y.double(), right, rtol=1e-5, atol=1e-6)
    assert traffic.operations == ["mul", "add", "abs", "sqrt", "sub", "relu"]
    assert traffic.bytes == 6 * (4000 + 4000), "each operation reads one tensor and writes one"


@pytest.mark.parametrize("factor", [1, 0.001, -1])
def test_a_clipped_tensor_has_a_norm_of_at_most_one(factor):
    x = factor * torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    y = x.double().sin()
    right = (y / max(1, y.norm())).cos()
    assert (y.norm() > 1) == (abs(factor) == 1), "both cases are tried"
    for function in (breaks.clip, breaks.clip_mended):
        torch.testing.assert_close(function(x).double(), right, rtol=1e-6, atol=1e-6)


def test_the_judge_of_two_functions_can_tell():
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    assert breaks.equal(torch.sin, torch.sin, x)
    for other in (torch.abs, torch.relu, lambda v: v.clamp(min=-0.01), lambda v: v.clamp(-0.5, 9)):
        assert not breaks.equal(lambda v: v, other, x)


def test_one_whole_graph_can_hold_an_item_but_no_if():
    """What the lesson says of `fullgraph=True`, by which `item()` is captured."""
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    backend = speed.Counting("eager")
    compiled = torch.compile(breaks.peak, fullgraph=True, backend=backend)
    torch.testing.assert_close(compiled(x), breaks.peak(x))
    assert len(backend.graphs) == 1 and ".item()" in backend.graphs[0]
    assert breaks.refusal(breaks.peak, x) == ""
    assert "branching" in breaks.refusal(breaks.branch, x)
    assert "if norm > 1" in breaks.refusal(breaks.clip, x)


def test_an_if_on_the_norm_compiles_again_until_both_answers_have_a_graph():
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    counts = breaks.compilations(breaks.clip, [f * x for f in (3, 3, 0.01, 5, 0.02, 2)])
    assert counts[:2] == [2, 2], "before the break and after it; the same norm needs no more"
    assert counts[2] > 2, "the guard on the norm failed"
    assert counts[3:] == 3 * [counts[-1]], "both answers have a graph"


def test_a_log_tells_of_breaks_and_of_what_is_compiled_again(tmp_path, monkeypatch):
    """Line 4 of those for one's own program; torch reads the variable ahead of our own setting."""
    monkeypatch.setenv("TORCH_LOGS", "graph_breaks,recompiles")
    text = launch(tmp_path, 1, str(rooms.program("norms"))).text
    assert "Graph break in user code" in text and "norm = y.norm().item()" in text
    assert "Recompiling function" in text and "if norm > 1" in text


@pytest.mark.parametrize("dynamic", [None, True])
def test_under_ddp_the_inner_model_may_be_one_whole_graph(dynamic, tmp_path):
    """Lines 1 and 2, with `fullgraph=True` and several sizes: cut for DDP, and yet not broken."""
    torch.compiler.reset()
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        backend = speed.Counting("eager")
        options = {"fullgraph": True, "dynamic": dynamic, "backend": backend}
        compiled = torch.compile(wrapped.Network(), **options)
        ddp_model = nn.parallel.DistributedDataParallel(compiled, bucket_cap_mb=1)
        counts = []
        for size in (8, 5, 3):
            ddp_model(torch.randn(size, wrapped.WIDTH)).sum().backward()
            counts.append(len(backend.graphs))
        assert counts[0] > 1, "cut where a bucket is full"
        assert (counts[0] == counts[1]) == (dynamic is True), "another size compiles again"
        assert counts[2] == counts[1], "with the size as a variable"
    finally:
        dist.destroy_process_group()


def test_a_bucket_below_one_mebibyte_cannot_be_compiled():
    """What the lesson says of `bucket_cap_mb=1`: DDPOptimizer asks it of every DDP model."""
    DDPOptimizer(2**20, speed.Counting("eager"))
    with pytest.raises(AssertionError, match="First bucket should be smaller/equal"):
        DDPOptimizer(2**20 - 1, speed.Counting("eager"))


def test_a_compiled_model_saves_other_names_and_the_inner_one_does_not():
    inner = model.ResNet()
    compiled = torch.compile(inner)
    names = list(inner.state_dict())
    assert list(compiled.state_dict()) == [f"_orig_mod.{name}" for name in names]
    other = model.ResNet()
    with pytest.raises(RuntimeError, match=r"Unexpected key.*_orig_mod\.features"):
        other.load_state_dict(compiled.state_dict())
    other.load_state_dict(inner.state_dict())
    for name, weight in compiled.state_dict().items():
        assert torch.equal(weight, other.state_dict()[name.removeprefix("_orig_mod.")])
    assert not isinstance(compiled, model.ResNet)
    assert inner.compile() is None
    assert type(inner) is model.ResNet
    assert list(inner.state_dict()) == names, "the method leaves them as they are"


def test_the_training_to_copy_is_one_of_adam(tmp_path, monkeypatch, capsys) -> None:
    """Also without a C++ compiler, and its file can be loaded into a plain model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    runpy.run_path(str(rooms.program("compiletrain")))
    text = capsys.readouterr().out
    assert "no g++ here" in text

    torch.manual_seed(0)
    points = torch.randn(4096, 2)
    heights = points[:, :1].sin() * points[:, 1:].sin()
    network = nn.Sequential(nn.Linear(2, 256), nn.GELU(), nn.Linear(256, 1)).double()
    far = nn.functional.mse_loss
    losses = [lambda model: far(model(points.double()), heights.double())] * 101
    told = adam.train(network, losses, rate=0.01)
    assert adam.distance(torch.load("compiletrain.pt"), network) < 1e-2
    for step in (0, 50, 100):
        assert f"step {step:3}: loss {told[step]:.3f}" in text


def test_a_warm_up_compiles_and_changes_nothing(tmp_path):
    """Steps of SGD on the mean over both ranks, by hand; on rank 1 the compiler is slow enough."""
    slow = ["--seconds", str(warmup.LIMIT + 1)]
    warm = launch(tmp_path, 2, str(rooms.program("warmup")), "--warm", *slow)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16)).double()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    batches = []
    for rank in range(2):
        torch.manual_seed(rank)
        batches.append(torch.randn(warmup.STEPS, 32, 16))
    for x in torch.cat(batches, dim=1).double():
        optimizer.zero_grad()
        (model(x) - x).square().mean().backward()
        optimizer.step()
    right = nn.utils.parameters_to_vector(model.parameters()).detach()
    for report in warm.reports("warmup", 2):
        assert report["graphs"] == {"before": 1, "training": 0}
        torch.testing.assert_close(
            torch.tensor(report["weights"]).double(), right, atol=1e-5, rtol=0
        )


def test_without_a_warm_up_the_training_waits_for_the_slow_compiler(tmp_path):
    [ended] = launch_all({tmp_path: (2, [str(rooms.program("warmup"))])}, 150)
    assert ended.code == 1
    root_cause = ended.text.partition("Root Cause")[2]
    assert "Timed out waiting" in root_cause
    assert ".backward()" in root_cause
