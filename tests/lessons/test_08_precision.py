"""Lesson 08 where its notebook does not look: formats of other machines, every spacing, what is said of GradScaler."""

import warnings

import pytest
import torch

import dtypes
from dtypes import FORMATS, best_dtype, bits, spacing, units

GPU, CPU = torch.device("cuda:0"), torch.device("cpu")


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
    values = (torch.rand(2000, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 30 - 20).exp2()
    for name in ("fp32", "bf16"):  # torch has no nextafter for fp16 on every device
        x = values.to(FORMATS[name])
        following = torch.nextafter(x, torch.full_like(x, torch.inf)).double() - x.double()
        assert spacing(values.tolist(), FORMATS[name]) == following.tolist()
    fraction = 10
    x = values[values > 2**-14].to(torch.float16)  # normal numbers of fp16: the rule that the lesson gives
    assert spacing(x.tolist(), torch.float16) == (x.double().log2().floor() - fraction).exp2().tolist()


def test_bf16_is_fp32_with_its_last_sixteen_bits_rounded_away() -> None:
    assert (bits(1.0, torch.float32), bits(-2.0, torch.bfloat16)) == ("0 01111111 " + 23 * "0", "1 10000000 0000000")
    for value in torch.randn(500, generator=torch.Generator().manual_seed(0)).tolist():
        whole, half = (int(bits(value, dtype).replace(" ", ""), 2) for dtype in (torch.float32, torch.bfloat16))
        assert abs(whole - half * 2**16) <= 2**15


def step(scaler: torch.amp.GradScaler, w: torch.Tensor, optimizer: torch.optim.Optimizer, factor: float) -> None:
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
    assert w.tolist() == [1, 1] and optimizer.param_groups[0]["lr"] == 0.05  # and was counted all the same

    resumed = torch.amp.GradScaler("cpu")
    resumed.load_state_dict(scaler.state_dict())
    assert resumed.get_scale() == scaler.get_scale() == 2.0**15 and torch.amp.GradScaler("cpu").get_scale() == 2.0**16

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        off = torch.amp.GradScaler("cpu", enabled=False)
        step(off, w, optimizer, 2.0)
    assert torch.allclose(w, torch.tensor(0.9)) and off.get_scale() == 1
