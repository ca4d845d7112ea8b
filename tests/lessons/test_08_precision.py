"""Lesson 08 where its notebook does not look.

Formats of other machines, every spacing, what is said of GradScaler; and each training beside one
in float64, by hand.
"""

import copy
import warnings

import pytest
import torch
import torch.distributed as dist
from ranks import launch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import amp
import clipping
import devices
import dtypes
import seedset
import small
import vanish
from course import rooms
from dtypes import FORMATS, best_dtype, bits, spacing, units

GPU = torch.device("cuda:0")
CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("capability", "has", "best"),
    [
        ((6, 0), {"fp32": True, "fp16": False, "bf16": False}, "fp32"),
        ((7, 5), {"fp32": True, "fp16": True, "bf16": False}, "fp16"),  # a T4
        ((9, 0), {"fp32": True, "fp16": True, "bf16": True}, "bf16"),
    ],
)
def test_a_gpu_is_asked_for_units_not_for_a_yes(capability, has, best, monkeypatch) -> None:
    def supported(including_emulation: bool = True) -> bool:
        return including_emulation or capability >= (8, 0)

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: capability)
    assert units(GPU) == has
    assert best_dtype(units(GPU))[0] == best


@pytest.mark.parametrize(
    ("said", "best"),
    [
        ("flags : fpu sse2 avx2 f16c avx512f avx512bw", "fp32"),  # f16c and the like only convert
        ("flags : avx512f avx512_bf16 amx_bf16 amx_tile", "bf16"),
        ("flags : avx512f avx512_fp16", "fp16"),
        ("Features : fp asimd fphp asimdhp bf16", "bf16"),  # an ARM
        (None, "fp32"),  # no Linux
    ],
)
def test_a_cpu_tells_its_units_in_its_flags(said, best, monkeypatch, tmp_path) -> None:
    path = tmp_path / "cpuinfo"
    if said is not None:
        path.write_text(f"processor : 0\n{said}\n")
    monkeypatch.setattr(dtypes, "Path", lambda name: path)
    assert best_dtype(units(CPU))[0] == best


def test_spacing_is_the_way_to_the_next_number() -> None:
    generator = torch.Generator().manual_seed(0)
    powers = torch.rand(2000, generator=generator, dtype=torch.float64) * 30 - 20
    values = powers.exp2()
    for name in ("fp32", "bf16"):  # torch has no nextafter for fp16 on every device
        x = values.to(FORMATS[name])
        following = torch.nextafter(x, torch.full_like(x, torch.inf)).double() - x.double()
        assert spacing(values.tolist(), FORMATS[name]) == following.tolist()
    fraction = 10
    x = values[values > 2**-14].to(torch.float16)  # normal numbers: the rule that the lesson gives
    right = (x.double().log2().floor() - fraction).exp2()
    assert spacing(x.tolist(), torch.float16) == right.tolist()


def test_bf16_is_fp32_with_its_last_sixteen_bits_rounded_away() -> None:
    assert bits(1.0, torch.float32) == "0 01111111 " + 23 * "0"
    assert bits(-2.0, torch.bfloat16) == "1 10000000 0000000"
    for value in torch.randn(500, generator=torch.Generator().manual_seed(0)).tolist():
        whole = int(bits(value, torch.float32).replace(" ", ""), 2)
        half = int(bits(value, torch.bfloat16).replace(" ", ""), 2)
        assert abs(whole - half * 2**16) <= 2**15


def step(
    scaler: torch.amp.GradScaler, w: torch.Tensor, optimizer: torch.optim.Optimizer, factor: float
) -> None:
    optimizer.zero_grad()
    scaler.scale((factor * w).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


def test_what_the_last_section_says_of_the_scaler() -> None:
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    scaler = torch.amp.GradScaler("cpu")
    step(scaler, w, optimizer, float("inf"))
    with pytest.warns(UserWarning, match=r"lr_scheduler.step\(\)` before `optimizer.step"):
        scheduler.step()  # the first step was skipped
    assert w.tolist() == [1, 1]
    assert optimizer.param_groups[0]["lr"] == 0.05, "it was counted all the same"

    resumed = torch.amp.GradScaler("cpu")
    resumed.load_state_dict(scaler.state_dict())
    assert resumed.get_scale() == scaler.get_scale() == 2.0**15
    assert torch.amp.GradScaler("cpu").get_scale() == 2.0**16

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        off = torch.amp.GradScaler("cpu", enabled=False)
        step(off, w, optimizer, 2.0)
    assert torch.allclose(w, torch.tensor(0.9)) and off.get_scale() == 1


class Asked(TorchDispatchMode):
    """Counts the times that Python asks for a number in a tensor: on a GPU it waits for it."""

    def __init__(self):
        super().__init__()
        self.times = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.times += operation is torch.ops.aten._local_scalar_dense.default
        return operation(*args, **(kwargs or {}))


@pytest.mark.parametrize(("fused", "times"), [(False, 1), (True, 0)])
def test_the_scaler_asks_once_a_step_unless_the_optimizer_is_fused(fused, times) -> None:
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5, fused=fused)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(w.sum()).backward()
    with Asked() as asked:
        scaler.step(optimizer)
    assert asked.times == times
    assert w.tolist() == [0.5, 0.5]


def test_a_hook_that_compresses_needs_a_scale_that_fits(tmp_path) -> None:
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        model = nn.Linear(1, 1, bias=False)
        ddp_model = nn.parallel.DistributedDataParallel(model)
        ddp_model.register_comm_hook(None, fp16_compress_hook)
        for gradient, sent in [(1.0, 1.0), (1e5, torch.inf), (1e-9, 0.0)]:
            model.zero_grad()
            ddp_model(torch.full((1, 1), gradient)).sum().backward()
            assert model.weight.grad.item() == sent
    finally:
        dist.destroy_process_group()


def test_convolutions_may_use_tf32_by_default_and_matrix_products_may_not() -> None:
    assert torch.backends.cudnn.allow_tf32
    assert not torch.backends.cuda.matmul.allow_tf32
    assert torch.get_float32_matmul_precision() == "highest"


STEPS = 24
BAD = 18


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> list[dict]:
    """What each of two ranks reported of amp.py."""
    folder = tmp_path_factory.mktemp("two")
    options = ["--steps", str(STEPS), "--bad", str(BAD)]
    return launch(folder, 2, str(rooms.program("amp")), *options).reports("amp", 2)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> list[dict]:
    """What each of two ranks reported of fp32.py."""
    folder = tmp_path_factory.mktemp("whole")
    options = ["--steps", str(STEPS)]
    return launch(folder, 2, str(rooms.program("fp32")), *options).reports("fp32", 2)


@pytest.fixture(scope="module")
def clipped() -> dict[str, dict[str, float]]:
    """One step in each way, as clipping.py takes them."""
    ways = {way: clipping.clip(way, CPU) for way in ("fp32", "wrong order", "mended")}
    adam = {f"Adam, {way}": clipping.clip(way, CPU, adam=True) for way in ("fp32", "wrong order")}
    return ways | adam


def test_a_gradient_is_clipped_at_its_true_size(clipped) -> None:
    """By hand, in float64: unscaled first, fp16 moves the weights as far as fp32 does."""
    model = amp.network(CPU).double()
    x = torch.randn(16, 32).double()
    F.cross_entropy(model(x), torch.arange(16) % 10).backward()
    norm = torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).norm().item()
    assert norm > 0.1
    for way, scale in [("fp32", 1), ("mended", 1), ("wrong order", 1024)]:
        assert clipped[way]["norm"] == pytest.approx(scale * norm, rel=0.01)
        assert clipped[way]["moved"] == pytest.approx(0.1 / scale, rel=0.02)


def test_adam_hides_that_the_order_is_wrong(clipped) -> None:
    """Its first step is the learning rate times the sign of each gradient, however it is scaled."""
    model = amp.network(CPU).double()
    x = torch.randn(16, 32).double()
    F.cross_entropy(model(x), torch.arange(16) % 10).backward()
    signs = torch.cat([parameter.grad.sign().flatten() for parameter in model.parameters()])
    for way in ("fp32", "wrong order"):
        moved = clipped[f"Adam, {way}"]["moved"]
        assert moved == pytest.approx(0.001 * signs.norm().item(), rel=0.05)


def overflows(model: nn.Module, x: torch.Tensor, y: torch.Tensor, scale: float) -> bool:
    """Whether fp16 has no number for a gradient of the loss when it is multiplied by `scale`."""
    model.zero_grad()
    with torch.autocast("cpu", torch.float16):
        loss = F.cross_entropy(model(x), y)
    (scale * loss).backward()
    return not all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_training_in_fp16_follows_one_process_in_float64(two) -> None:
    """The mean gradient of both ranks, each with its own data; if one overflows, none steps."""
    right = amp.network(CPU).double()
    begin = amp.weights(right)
    generators = [torch.Generator().manual_seed(rank) for rank in range(2)]
    scale = 2.0**24
    good = 0
    scales = []
    skipped = []
    for step in range(STEPS):
        batches = []
        for generator in generators:
            x = torch.randn(16, 32, generator=generator)
            batches.append((x, torch.randint(10, (16,), generator=generator)))
        if step == two[0]["bad"]:
            batches[1][0][0, 0] = 1e6
        scales.append(scale)
        short = amp.network(CPU)
        nn.utils.vector_to_parameters(amp.weights(right).float(), short.parameters())
        if any(overflows(short, x, y, scale) for x, y in batches):
            skipped.append(step)
            scale /= 2
            good = 0
            continue
        right.zero_grad()
        for x, y in batches:
            (F.cross_entropy(right(x.double()), y) / 2).backward()
        with torch.no_grad():
            for parameter in right.parameters():
                parameter -= 0.1 * parameter.grad
        good += 1
        if good == 6:
            scale *= 2
            good = 0

    assert two[0]["bad"] in skipped
    assert 0 < len(skipped) < STEPS / 2
    for report in two:
        story = report["story"]
        assert story["scale"] == scales
        assert [step for step, moved in enumerate(story["moved"]) if moved == 0] == skipped
        weights = torch.tensor(report["weights"], dtype=torch.float64)
        assert (weights - amp.weights(right)).norm() < 0.01 * (amp.weights(right) - begin).norm()


def test_training_in_fp32_follows_one_process_in_float64(whole) -> None:
    """Without a number that is too large, and with nothing to scale, no step is skipped."""
    right = amp.network(CPU).double()
    begin = amp.weights(right)
    generators = [torch.Generator().manual_seed(rank) for rank in range(2)]
    losses: list[list[float]] = [[], []]
    for _ in range(STEPS):
        right.zero_grad()
        for generator, row in zip(generators, losses, strict=True):
            x = torch.randn(16, 32, generator=generator).double()
            loss = F.cross_entropy(right(x), torch.randint(10, (16,), generator=generator))
            row.append(loss.item())
            (loss / 2).backward()
        with torch.no_grad():
            for parameter in right.parameters():
                parameter -= 0.1 * parameter.grad
    for report, row in zip(whole, losses, strict=True):
        assert report["story"]["loss"] == pytest.approx(row, rel=1e-4)
        assert min(report["story"]["moved"]) > 0
        weights = torch.tensor(report["weights"], dtype=torch.float64)
        assert (weights - amp.weights(right)).norm() < 1e-4 * (amp.weights(right) - begin).norm()


def test_only_the_last_rank_gets_a_number_that_is_too_large() -> None:
    for rank in range(2):
        place = devices.Place(rank, rank, 2, CPU, "gloo")
        assert small.batch(place, bad=False)[0].abs().max() < 10
        largest = small.batch(place, bad=True)[0].abs().max().item()
        assert (largest > torch.finfo(torch.float16).max) == (rank == 1)


def test_a_scaled_loss_has_the_gradient_of_the_loss() -> None:
    exact = vanish.gradients(torch.float32, 1.0, CPU)
    scaled = vanish.gradients(torch.float16, 2.0**16, CPU)
    for gradient, right in zip(scaled, exact, strict=True):
        assert (gradient - right).norm() < 0.05 * right.norm()


@pytest.mark.parametrize(("name", "tolerance"), [("fp32", 1e-4), ("fp16", 0.05)])
def test_a_run_is_sgd_with_momentum(name, tolerance, monkeypatch) -> None:
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(10, 192, generator=generator)
    data = {}
    for split, count in [("train", 300), ("test", 200)]:
        y = torch.randint(10, (count,), generator=generator)
        data[split] = (centres[y] / 4 + torch.randn(count, 192, generator=generator), y)

    # By hand, in float64: the same first weights and the same batches.
    torch.manual_seed(3)
    model = seedset.network()
    state = torch.get_rng_state()

    def drawn() -> nn.Sequential:
        """The network whose weights the program has just drawn; we look at them afterwards."""
        torch.set_rng_state(state)
        return model

    right = copy.deepcopy(model).double()
    begin = amp.weights(right)
    speeds = [torch.zeros_like(parameter) for parameter in right.parameters()]
    x, y = data["train"]
    for _ in range(20):
        batch = torch.randint(len(y), (128,))
        right.zero_grad()
        F.cross_entropy(right(x[batch].double()), y[batch]).backward()
        with torch.no_grad():
            for parameter, speed in zip(right.parameters(), speeds, strict=True):
                speed.mul_(0.9).add_(parameter.grad)
                parameter -= 0.05 * speed
    x, y = data["test"]
    accuracy = (right(x.double()).argmax(1) == y).double().mean().item()

    monkeypatch.setattr(seedset, "network", drawn)
    run = seedset.train(name, 3, data, 20, CPU)
    way = (amp.weights(right) - begin).norm()
    assert (amp.weights(model) - amp.weights(right)).norm() < tolerance * way
    assert run["accuracy"] == pytest.approx(accuracy, abs=2 / 200)
