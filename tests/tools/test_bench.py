"""The benchmark without its measuring: which way an aim points, its table, what ends with it."""

import hashlib
import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from collections import defaultdict
from itertools import cycle
from pathlib import Path

import psutil
import pytest
from torchvision.datasets import CIFAR10

import bench
import bench_parts
import bench_table
from bench_table import draw, outcome, over, row, short, table
from run_processes import Work

ROWS = [
    row("pace", over([3.0, 2.0, 8.0], [2.0, 2.0, 4.0]), "≥ 1.3"),
    row("good pace", [1.4, 1.31, 1.5], "≥ 1.3"),
    row("slow pace", [1.17, 1.17], "≥ 1.3"),
    row("time", [0.5, 0.4, 0.6], "≤ 0.5", "10 µs / 20 µs"),
    row("long time", [0.6], "≤ 0.5"),
    row("neither", [1.0, 2.0]),
]
BLANK = 65 * " "
TABLE = f"""
{BLANK}median  lowest – highest  aim
pace      {BLANK[9:]} 1.50  1.00 – 2.00       ≥ 1.3    unclear
good pace {BLANK[9:]} 1.40  1.31 – 1.50       ≥ 1.3    reached
slow pace {BLANK[9:]} 1.17  1.17 – 1.17       ≥ 1.3    missed by 10.0%
time      {BLANK[9:]} 0.50  0.40 – 0.60       ≤ 0.5    unclear
    10 µs / 20 µs
long time {BLANK[9:]} 0.60  0.60 – 0.60       ≤ 0.5    missed by 20.0%
neither   {BLANK[9:]} 1.50  1.00 – 2.00
"""
NO_OPTION = {"data": None, "frameworks": False, "course": False}
KEPT = json.loads((bench_parts.ROOT / "assets" / "bench-2-cores.json").read_text())


def test_an_aim_is_reached_or_missed_by_the_whole_spread() -> None:
    outcomes = [outcome(row) for row in ROWS]
    assert outcomes == ["unclear", "reached", "missed", "unclear", "missed", ""]
    assert short(ROWS[2], 1.17) == pytest.approx(0.1)
    assert short(ROWS[4], 0.6) == pytest.approx(0.2)
    assert table(ROWS) == TABLE.strip("\n")


def test_the_figure_holds_every_row(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(bench_table.plt, "close", lambda figure: None)
    draw(ROWS, "a machine", tmp_path / "bench.png")
    (ax,) = bench_table.plt.gcf().axes
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == [row["row"] for row in ROWS]
    words = [text.get_text() for text in ax.texts]
    assert words[:2] == ["1.50, aim ≥ 1.3", "1.40, aim ≥ 1.3"]
    assert (tmp_path / "bench.png").stat().st_size > 5000
    monkeypatch.undo()
    bench_table.plt.close("all")


@pytest.mark.parametrize(
    ("options", "added"),
    [
        ({}, []),
        ({"course": True}, ["course"]),
        ({"data": Path(), "frameworks": True}, ["frameworks", "accuracy"]),
    ],
)
def test_long_parts_are_measured_when_they_are_asked_for(options, added) -> None:
    options = NO_OPTION | options
    assert bench.chosen(Namespace(parts=[], **options)) == list(bench.PARTS)[:9] + added
    assert bench.chosen(Namespace(parts=["loader"], **options)) == ["loader", *added]
    assert bench.chosen(Namespace(parts=["course"], **NO_OPTION)) == ["course"]


def test_the_accuracy_row_trains_as_long_as_its_budget_and_says_what_the_pictures_are(
    tmp_path, monkeypatch
) -> None:
    launched = []

    def launch(folder: Path, ranks: int, program: str, *arguments: object, **more) -> dict:
        launched.append((folder.name, program, *map(str, arguments)))
        if program == "fast.py":
            return {"pace": 1000, "curve": [{"accuracy": 0.5}, {"accuracy": 0.8}]}
        return {"pace": 1000, "accuracy": 0.6}

    files = tmp_path / "data" / CIFAR10.base_folder
    files.mkdir(parents=True)
    for name, _ in CIFAR10.train_list + CIFAR10.test_list:
        (files / name).write_bytes(b"the same pictures, in another form")
    monkeypatch.setattr(bench_parts, "launch", launch)
    args = Namespace(data=tmp_path / "data", budget=120)
    (found,) = bench_parts.accuracy(args, tmp_path)
    assert found["ratio"] == pytest.approx(0.2 / 0.4)
    ours = "80.0% right after 3 epochs of 40,000 pictures in 120 s"
    assert found["note"].startswith(f"{ours}; theirs 60.0% right after 3")
    assert "their learning rate were chosen by test accuracy" in found["note"]
    assert found["note"].endswith("; a copy of CIFAR-10, not its own files")
    share = ("--epochs", "3", "--train-size", "40000")
    assert launched[2] == ("ours", "fast.py", "--widths", "16,32,64", *share)
    assert launched[5] == ("tutorial", "ddp.py", "--lr", "0.06", *share)
    assert "class ResNet(nn.Sequential)" in (tmp_path / "tutorial" / "model.py").read_text()

    own = []
    for name, _ in CIFAR10.train_list:
        own.append((name, hashlib.md5((files / name).read_bytes()).hexdigest()))
    monkeypatch.setattr(CIFAR10, "train_list", own)
    assert not bench_parts.originals(tmp_path / "data")  # the test's pictures are still others
    monkeypatch.setattr(CIFAR10, "test_list", [])
    assert bench_parts.originals(tmp_path / "data")


def names_today(bf16: bool, work: Path, monkeypatch) -> set[str]:
    """The names of the rows of all parts, which launch nothing; `bf16`: whether a CPU has it."""
    numbers = defaultdict(lambda: [1.0])  # one round of whatever a part asks for
    misses = cycle([1, 0])  # a cold cache, then a warm one
    ways = ("every part", "no_sync")
    reports = {
        "accumulate": {"rows": [{"way": way, "parts": 4, "seconds": [1.0]} for way in ways]},
        "bench_backend": {"seconds": numbers},
        "bench_frameworks": {"seconds": numbers, "versions": defaultdict(str)},
        "bucket": {"ratios": [1.0]},
        "cifar10": {},
        "ddp": {"pace": 1000, "accuracy": 0.5},
        "fast": {"pace": 1000, "accuracy": 0.5},
        "loader": {"batched": 1.0, "single": 1.0},
        "speeds": {"times": defaultdict(lambda: numbers)},
        "transport": {"ratios": numbers},
    }

    def launch(folder: Path, ranks: int, program: object, *arguments: object, **more) -> dict:
        if "compiled" in arguments:
            return {"first": 1.0, "pace": 1.0, "misses": next(misses)}
        if program == bench_parts.STEPS:
            return numbers | {"bf16": bf16}
        return reports[Path(str(program)).stem]

    work.mkdir()
    monkeypatch.setattr(bench_parts, "launch", launch)
    monkeypatch.setattr(bench_parts.backend_build, "build", lambda name: work / f"{name}.so")
    monkeypatch.setattr(bench_parts, "start", lambda *command, **more: None)
    monkeypatch.setattr(bench_parts, "lessons", lambda folder, *more: folder)
    monkeypatch.setattr(bench_parts, "frameworks_python", lambda: Path(sys.executable))
    monkeypatch.setattr(bench_parts, "originals", lambda data: True)
    args = Namespace(rounds=1, budget=120, data=work)
    rows = [row for part in bench_parts.PARTS.values() for row in part(args, work)]
    return {row["row"] for row in rows}


def test_every_row_that_is_kept_is_one_that_the_bench_makes_today(tmp_path, monkeypatch) -> None:
    today = names_today(True, tmp_path / "bf16", monkeypatch)
    today |= names_today(False, tmp_path / "fp32", monkeypatch)
    kept = [row["row"] for row in KEPT["rows"]]
    assert kept
    assert not [name for name in kept if name not in today]


def test_the_programs_of_all_rooms_are_copied_solved(tmp_path: Path) -> None:
    folder = bench_parts.lessons(tmp_path / "flat")
    assert {"ddp.py", "fast.py", "devices.py"} <= {path.name for path in folder.iterdir()}
    marks = [path.name for path in folder.glob("*.py") if "# STUB" in path.read_text()]
    assert not marks


def test_one_part_that_fails_costs_its_own_rows(tmp_path: Path, monkeypatch) -> None:
    def fails(args: Namespace, work: Path) -> list[dict]:
        bench_parts.start(work, sys.executable, "-c", "raise ValueError('no compiler')")
        return ROWS[:1]

    three = {
        "first": lambda args, work: ROWS[:1],
        "second": fails,
        "third": lambda args, work: ROWS[1:2],
    }
    monkeypatch.setattr(bench, "PARTS", three)
    work = Work("COURSE_BENCH", "a test", tmp_path)
    rows, failed = bench.measure(Namespace(parts=[*three], **NO_OPTION), work)
    assert rows == ROWS[:2]
    (message,) = failed
    assert message.startswith("second: ")
    assert "no compiler" in message


def test_a_program_has_no_more_than_its_time(tmp_path: Path) -> None:
    endless = "import time; time.sleep(60)"
    with pytest.raises(bench_parts.Failed, match=r"was not through after 0.5 s"):
        bench_parts.start(tmp_path, sys.executable, "-c", endless, limit=0.5)


def test_killed_it_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    command = [sys.executable, bench.__file__, "buckets"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    killed = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    process = psutil.Process(killed.pid)
    deadline = time.monotonic() + 60
    # One child watches, one measures.
    while len(process.children()) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    children = process.children(recursive=True)
    killed.kill()
    killed.wait()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert len(children) >= 2
    assert not alive
    assert not [*tmp_path.iterdir()]
