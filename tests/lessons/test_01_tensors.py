"""Lesson 01, beyond its notebook: drawings of every kind of view, and of a GPU's kernels."""

import os
import resource

import matplotlib
import pytest
import torch

matplotlib.use("Agg")

import matplotlib.pyplot as plt

import copies
from clock import Times, at_once, one_by_one, product
from copies import traffic
from stack import cpu_kernels
from tensors import draw, flame, positions

BASE = torch.arange(24)  # each number is its own position
VIEWS = [
    BASE.reshape(4, 6),
    BASE.reshape(4, 6).T,
    BASE.reshape(4, 6)[1:, ::2],
    BASE[5:9, None].expand(4, 3),
    BASE.unfold(0, 3, 2),  # rows that overlap
]


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: f"{tuple(view.shape)}-{view.stride()}")
def test_positions_lead_to_the_elements(view: torch.Tensor) -> None:
    assert torch.tensor(positions(view)).equal(view)
    figure, ax = plt.subplots()
    draw(ax, view, "view")
    numbers = [text.get_text() for text in ax.texts]
    assert len([number for number in numbers if number.isdigit()]) == view.numel() + len(BASE)
    plt.close(figure)


def test_kernels_are_drawn_below_all_calls() -> None:
    rows = [{"depth": 0, "name": "nn.Linear", "start": 5, "end": 9}]
    rows += [{"depth": 1, "name": "aten::linear", "start": 6, "end": 8}]
    function = "at::native::(anonymous namespace)::softmax<4, at::native::Other<float> >"
    name = f"void {function}(float*, int)"
    figure, ax = plt.subplots()
    flame(ax, rows, [{"name": name, "start": 8, "end": 15}])
    assert [text.get_text() for text in ax.texts] == ["nn.Linear", "linear", "softmax"]
    assert [bar.get_y() + bar.get_height() / 2 for bar in ax.patches] == pytest.approx([0, 1, 2])
    assert ax.patches[-1].get_x() == 3
    assert ax.patches[-1].get_width() == 7
    plt.close(figure)


def test_mkl_names_its_kernel_where_there_is_one(capfd: pytest.CaptureFixture) -> None:
    a = torch.rand(64, 64)
    names = cpu_kernels(lambda: a @ a)
    assert names == ["MKL SGEMM"] if torch.backends.mkl.is_available() else "MKL SGEMM" not in names
    with pytest.raises(ZeroDivisionError):
        cpu_kernels(lambda: 1 / 0)
    os.write(1, b"still here\n")  # past Python: on the output that C has
    assert capfd.readouterr().out == "still here\n"


def test_the_sum_at_once_takes_no_memory_of_its_own() -> None:
    """A tensor of 10 million squares would be 9,766 pages that the system hands out."""
    x = torch.rand(10**7)
    at_once(x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    assert at_once(x).item() > 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 1000
    assert torch.allclose(at_once(x[:1000]), one_by_one(x[:1000]))


def test_each_stop_of_the_clock_is_timed_as_often() -> None:
    times = product(16, torch.device("cpu"), repeats=4)
    assert times["operations"] == 2 * 16**3
    assert [len(times[key]) for key in ("returned", "done", "read")] == [4, 4, 4]
    assert all(early <= late for early, late in zip(times["returned"], times["done"], strict=True))


def test_a_copy_within_one_memory_reads_and_writes() -> None:
    """Twice the bytes there, and once across a road; `meta` plays the other memory."""
    here = torch.zeros(1000, dtype=torch.uint8)
    there = torch.zeros(1000, dtype=torch.uint8, device="meta")
    assert traffic(here, here.clone()) == traffic(there, torch.zeros_like(there)) == 2000
    assert traffic(here, there) == traffic(there, here) == 1000


def test_a_copy_has_two_speeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 bytes in half a second: 2,000 copied in a second, and 4,000 read or written."""
    monkeypatch.setattr(copies, "clocked", lambda *_: Times([0.1], [0.5]))
    speeds = copies.copies(torch.device("cpu"), 1000)
    assert speeds == {"host → host": {"copied": 2000, "carried": 4000}}
