"""The benchmark without its measuring: which way an aim points, what the table says of it, and what ends with it."""

import hashlib
import os
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import psutil
import pytest
from torchvision.datasets import CIFAR10

import bench
import parts
import ratios
from ratios import draw, over, row, short, table

ROWS = [
    row("pace", over([3.0, 2.0, 8.0], [2.0, 2.0, 4.0]), "≥ 1.3"),
    row("slow pace", [1.17, 1.17], "≥ 1.3"),
    row("time", [0.5, 0.4, 0.6], "≤ 0.5", "10 µs / 20 µs"),
    row("long time", [0.6], "≤ 0.5"),
    row("neither", [1.0, 2.0]),
]
TABLE = """
                                                                 median  lowest – highest  aim
pace                                                               1.50  1.00 – 2.00       ≥ 1.3    reached
slow pace                                                          1.17  1.17 – 1.17       ≥ 1.3    missed by 10.0%
time                                                               0.50  0.40 – 0.60       ≤ 0.5    reached
    10 µs / 20 µs
long time                                                          0.60  0.60 – 0.60       ≤ 0.5    missed by 20.0%
neither                                                            1.50  1.00 – 2.00
"""


def test_an_aim_is_missed_on_one_side_only() -> None:
    assert [short(one) for one in ROWS] == [0, pytest.approx(0.1), 0, pytest.approx(0.2), None]
    assert table(ROWS) == TABLE.strip("\n")


def test_the_figure_holds_every_row(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(ratios.plt, "close", lambda figure: None)
    draw(ROWS, "a machine", tmp_path / "bench.png")
    (ax,) = ratios.plt.gcf().axes
    assert [label.get_text() for label in ax.get_yticklabels()] == [one["row"] for one in ROWS]
    assert [text.get_text() for text in ax.texts][:2] == ["1.50, aim ≥ 1.3", "1.17, aim ≥ 1.3"]
    assert (tmp_path / "bench.png").stat().st_size > 5000
    monkeypatch.undo()
    ratios.plt.close("all")


@pytest.mark.parametrize(
    ("options", "added"),
    [({}, []), ({"course": True}, ["course"]), ({"data": Path(), "frameworks": True}, ["frameworks", "accuracy"])],
)
def test_long_parts_are_measured_when_they_are_asked_for(options, added) -> None:
    none = {"data": None, "frameworks": False, "course": False}
    assert bench.chosen(Namespace(parts=[], **none | options)) == list(bench.PARTS)[:8] + added
    assert bench.chosen(Namespace(parts=["loader"], **none | options)) == ["loader", *added]
    assert bench.chosen(Namespace(parts=["course"], **none)) == ["course"]


def test_the_accuracy_row_trains_as_long_as_its_budget_and_says_what_the_pictures_are(tmp_path, monkeypatch) -> None:
    launched = []

    def launch(folder: Path, n: int, program: str, *arguments: object, **more) -> dict:
        launched.append((folder.name, program, *map(str, arguments)))
        ours = program == "fast.py"
        return {"pace": 1000, **({"curve": [{"accuracy": 0.5}, {"accuracy": 0.8}]} if ours else {"accuracy": 0.6})}

    files = tmp_path / "data" / CIFAR10.base_folder
    files.mkdir(parents=True)
    for name, _ in CIFAR10.train_list + CIFAR10.test_list:
        (files / name).write_bytes(b"the same pictures, in another form")
    monkeypatch.setattr(parts, "launch", launch)
    (found,) = parts.accuracy(Namespace(data=tmp_path / "data", budget=120), tmp_path)
    assert found["ratio"] == pytest.approx(0.2 / 0.4)
    assert found["note"].startswith(
        "80.0% right after 3 epochs of 40,000 pictures in 120 s; theirs 60.0% right after 3"
    )
    assert found["note"].endswith("; a copy of CIFAR-10, not its own files")
    share = ("--epochs", "3", "--train-size", "40000")
    assert launched[2] == ("ours", "fast.py", "--widths", "16,32,64", "--flip", *share)
    assert launched[5] == ("tutorial", "ddp.py", "--lr", "0.06", *share)
    assert "class ResNet(nn.Sequential)" in (tmp_path / "tutorial" / "model.py").read_text()

    own = [(name, hashlib.md5((files / name).read_bytes()).hexdigest()) for name, _ in CIFAR10.train_list]
    monkeypatch.setattr(CIFAR10, "train_list", own)
    assert not parts.originals(tmp_path / "data")  # the test's pictures are still others
    monkeypatch.setattr(CIFAR10, "test_list", [])
    assert parts.originals(tmp_path / "data")


def test_one_part_that_fails_costs_its_own_rows(tmp_path: Path, monkeypatch) -> None:
    def fails(args: Namespace, work: Path) -> list[dict]:
        parts.start(work, sys.executable, "-c", "raise ValueError('no compiler')")
        return ROWS[:1]

    three = {"first": lambda args, work: ROWS[:1], "second": fails, "third": lambda args, work: ROWS[1:2]}
    monkeypatch.setattr(bench, "PARTS", three)
    rows, failed = bench.measure(
        Namespace(parts=[*three], data=None, frameworks=False, course=False), tmp_path, "a test"
    )
    assert rows == ROWS[:2]
    assert len(failed) == 1 and failed[0].startswith("second: ") and "no compiler" in failed[0]


def test_a_program_has_no_more_than_its_time(tmp_path: Path) -> None:
    with pytest.raises(parts.Failed, match=r"was not through after 0.5 s"):
        parts.start(tmp_path, sys.executable, "-c", "import time; time.sleep(60)", limit=0.5)


def test_killed_it_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    command = [sys.executable, bench.__file__, "buckets"]
    killed = subprocess.Popen(command, env=os.environ | {"TMPDIR": str(tmp_path)}, stderr=subprocess.DEVNULL)
    process, deadline = psutil.Process(killed.pid), time.monotonic() + 60
    while len(process.children()) < 2 and time.monotonic() < deadline:  # one watches, one measures
        time.sleep(0.1)
    children = process.children(recursive=True)
    killed.kill()
    killed.wait()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert len(children) >= 2 and not alive
    assert not [*tmp_path.iterdir()]
