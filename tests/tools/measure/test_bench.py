"""The bench: its parts and aims, its table, what is kept, what ends with it."""

import json
import os
import shutil
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import psutil
import pytest
from torchvision.datasets import CIFAR10

from course.filled import REFERENCE
from course.measure import __main__ as bench
from course.measure import machine, parts, start
from course.measure.pairs import Part, measure
from course.measure.table import table
from course.processes import Work

KEPT = sorted((start.ROOT / "assets").glob("bench-*.json"))

# ---- parts


def made(work: Path) -> dict[str, Part]:
    return bench.chosen(Namespace(parts=[], quick=False), work)


def test_the_plan_fits_into_half_an_hour(tmp_path: Path) -> None:
    whole = made(tmp_path)
    lines = bench.plan(whole).splitlines()
    assert [line.split()[0] for line in lines[:-1]] == list(parts.parts(tmp_path))
    assert lines[-1].startswith("17.5 minutes, and as long again")
    assert not [*tmp_path.iterdir()]  # a plan makes nothing
    quick = bench.chosen(Namespace(parts=["loader", "compile"], quick=True), tmp_path)
    assert [(name, part.minutes) for name, part in quick.items()] == [("loader", 0), ("compile", 0)]


@pytest.mark.parametrize(
    "name",
    ["buckets", *(pytest.param(name, marks=pytest.mark.thorough) for name in parts.parts(Path()))],
)
def test_a_part_measures_what_its_rows_need(name: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(parts, "COMPILED", {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)})
    part = bench.chosen(Namespace(parts=[name], quick=True), tmp_path)[name]
    rows = measure(part, rounds=2)
    expected = [each.name for each in part.ratios]
    if not shutil.which("g++"):
        expected = [each for each in expected if "C++" not in each]
    assert [row["row"] for row in rows[:-1]] == expected
    assert {row["rounds"] for row in rows} == {2} and all(row["ratio"] > 0 for row in rows)


def test_the_aims_that_are_looked_at_stand_in_their_rows(tmp_path: Path) -> None:
    aims = {ratio.name: ratio.aim for part in made(tmp_path).values() for ratio in part.ratios}
    assert aims["small CNN, tuned DDP / two that never talk"] == "≥ 0.93"
    assert aims["our bucketed DDP / torch's, time of a step"] == "≤ 1.05"
    assert aims["compiled / eager, both NCHW fp32"] == "≥ 1.3"
    assert aims["C++ all-reduce / gloo, 1 MB"] == "≥ 10"
    assert aims["C++ all-reduce / gloo, 25 MB"] == "≥ 3"
    assert aims["C++ all-reduce / one memcpy, 25 MB, time"] == "≤ 2"
    assert aims["MLP, tuned DDP on C++ / two that never talk"] == "≥ 0.85"


def test_every_row_that_is_kept_is_one_that_the_bench_makes_today(tmp_path, monkeypatch) -> None:
    today = set()
    for units in (["amx_bf16"], []):
        monkeypatch.setattr(parts, "bf16_units", lambda units=units: units)
        for part in made(tmp_path).values():
            today |= {ratio.name for ratio in part.ratios}
            today.add(f"known equal, {part.name}: {part.equal} twice")
    assert REFERENCE in [path.name for path in KEPT]
    for path in KEPT:
        rows = json.loads(path.read_text())["rows"]
        assert rows and not [row["row"] for row in rows if row["row"] not in today]
        assert all(row["low"] <= row["ratio"] <= row["high"] for row in rows)
        assert all((row["rounds"] >= 8) == (row["span"] == "interval") for row in rows)


# ---- on what was measured, and what is kept


@pytest.mark.parametrize(
    ("name", "model", "file"),
    [
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "6-79", "bench-intel-xeon-cpu-6-79-4-cores.json"),
        ("AMD EPYC 7B13", "25-1", "bench-amd-epyc-7b13-25-1-4-cores.json"),
        ("", "", "bench-aarch64-4-cores.json"),
    ],
)
def test_a_run_is_kept_under_the_name_of_its_processor(name: str, model: str, file: str) -> None:
    where = {"name": name, "model": model, "processor": "aarch64", "cores": 4}
    assert machine.file_name(where) == file


def test_the_processor_is_read_from_linux(tmp_path: Path, monkeypatch) -> None:
    text = "cpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Some CPU\nflags\t\t: fpu avx512_bf16\n"
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(machine, "CPUS", tmp_path / "cpuinfo")
    assert machine.bf16_units() == ["avx512_bf16"]
    assert machine.machine()["model"] == "6-207"
    monkeypatch.setattr(machine, "CPUS", tmp_path / "missing")
    assert machine.bf16_units() == []
    assert machine.machine()["model"] == ""


def test_cifar10s_own_files_are_known_by_their_sums(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / CIFAR10.base_folder
    folder.mkdir()
    (folder / "one").write_bytes(b"pictures")
    own = [("one", "b7f6b4cbcd2a1e4c2a4a0d2ad6ee9c68")]
    monkeypatch.setattr(CIFAR10, "train_list", own)
    monkeypatch.setattr(CIFAR10, "test_list", [])
    assert not machine.originals(tmp_path)
    monkeypatch.setattr(CIFAR10, "train_list", [])
    assert machine.originals(tmp_path)


@pytest.mark.parametrize("keep", [False, True])
def test_a_run_is_written_into_build_and_kept_on_request(tmp_path, monkeypatch, keep: bool) -> None:
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    monkeypatch.setattr(bench, "BUILD", tmp_path / "build")
    where = {"name": "A CPU", "model": "1", "processor": "x", "cores": 2}
    bench.save([{"row": "a ≤ b"}, {"row": "c"}], where, keep)
    text = (tmp_path / "build" / "bench.json").read_text()
    assert json.loads(text) == {"machine": where, "rows": [{"row": "a ≤ b"}, {"row": "c"}]}
    kept = [path.name for path in tmp_path.glob("assets/*")]
    assert kept == (["bench-a-cpu-1-2-cores.json"] if keep else [])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["loading"],
            "no part loading: there is ranks, ResNet-9, small-CNN, MLP, buckets",
        ),
        (["--keep", "loader"], "--keep wants a whole run"),
        (["--keep", "--quick"], "--keep wants a whole run"),
    ],
)
def test_what_cannot_be_measured_is_refused(words, said: str, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", *words])
    with pytest.raises(SystemExit):
        bench.arguments()
    assert said in capsys.readouterr().err


# ---- the table


def line(name: str, ends: tuple[float, float, float], aim: str = "", **more) -> dict:
    """A row with the ends and the median of its interval."""
    low, middle, high = ends
    numbers = {"ratio": middle, "low": low, "high": high, "rounds": 40, "seconds": []}
    return {"row": name, "span": "interval", "aim": aim, "limit": "", "note": ""} | numbers | more


ROWS = [
    line("pace", (1.0, 1.5, 2.0), "≥ 1.3"),
    line("good pace", (1.31, 1.4, 1.5), "≥ 1.3", seconds=[0.0249, 7.3e-5]),
    line("slow pace", (1.16, 1.17, 1.18), "≥ 1.3"),
    line("time", (0.6, 0.6, 0.61), "≤ 0.5", note="in bf16"),
    line("impossible", (1.01, 1.04, 1.09), "≥ 0.97", limit="≤ 1"),
    line("old", (1.31, 1.4, 2.0), "≥ 1.3", span="range", rounds=5),
    line("no aim", (3.0, 3.1, 3.2)),
]
BLANK = 60 * " "
TABLE = f"""
{BLANK} median  95 % interval   rounds  aim
pace      {BLANK[10:]}   1.50  1.00 – 2.00         40  ≥ 1.3    cannot tell
good pace {BLANK[10:]}   1.40  1.31 – 1.50         40  ≥ 1.3    reached
    24.9 ms / 73 µs
slow pace {BLANK[10:]}   1.17  1.16 – 1.18         40  ≥ 1.3    missed by 10.0%
time      {BLANK[10:]}   0.60  0.60 – 0.61         40  ≤ 0.5    missed by 20.0%
    in bf16
impossible{BLANK[10:]}   1.04  1.01 – 1.09         40  ≥ 0.97   faulty limit: ≤ 1
old       {BLANK[10:]}   1.40  1.31 – 2.00          5  ≥ 1.3    cannot tell
    no interval, only the lowest and the highest
no aim    {BLANK[10:]}   3.10  3.00 – 3.20         40
"""


def test_the_table_says_what_became_of_each_aim() -> None:
    assert table(ROWS) == TABLE.strip("\n")


# ---- what is started, and what ends with it


def test_the_programs_of_all_rooms_are_copied_solved(tmp_path: Path) -> None:
    folder = start.programs(tmp_path / "flat", tmp_path)
    assert {"ddp.py", "fast.py", "devices.py"} <= {path.name for path in folder.iterdir()}
    assert "return rank == world_size - 1" in (folder / "waves.py").read_text()
    assert (folder / "data").resolve() == tmp_path


def test_one_part_that_fails_costs_its_own_rows(tmp_path: Path) -> None:
    def fails(rounds: int, seed: int) -> dict:
        start.start(tmp_path, sys.executable, "-c", "raise ValueError('no compiler')")
        return {}

    def works(rounds: int, seed: int) -> dict:
        return {"way": [1.0] * rounds, "way again": [1.0] * rounds}

    good = Part("good", 0, works, [], "way")
    three = {"first": good, "second": Part("bad", 0, fails, [], "way"), "third": good}
    rows, failed = bench.measure_all(three, Work("COURSE_BENCH", "a test", tmp_path))
    assert len(rows) == 2
    (message,) = failed
    assert message.startswith("second: ") and "no compiler" in message


def test_a_program_has_no_more_than_its_time(tmp_path: Path) -> None:
    endless = "import time; time.sleep(60)"
    with pytest.raises(start.Failed, match=r"was not through after 0.5 s"):
        start.start(tmp_path, sys.executable, "-c", endless, limit=0.5)


@pytest.mark.thorough  # what every tool owes to `guarded` is tried in test_run_processes.py
def test_killed_it_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "course.measure", "buckets"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    quiet = subprocess.DEVNULL
    killed = subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet)
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
