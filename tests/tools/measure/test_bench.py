"""The bench without its measuring: its parts and aims, its table, what ends with it."""

import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import psutil
import pytest
from bench_part import fixed

from course.filled import REFERENCE
from course.measure import __main__ as bench
from course.measure import long, start
from course.measure import machine as bench_machine
from course.measure import parts as bench_parts
from course.measure.rounds import Part
from course.measure.table import draw, plt, table
from course.processes import Work

NO_OPTION = {"data": None, "frameworks": False, "course": False}
KEPT = json.loads((start.ROOT / "assets" / REFERENCE).read_text())


def line(name: str, ends: tuple[float, float, float], aim: str = "", **more) -> dict:
    """A row with the ends and the median of its interval."""
    low, middle, high = ends
    numbers = {"ratio": middle, "low": low, "high": high, "rounds": 40, "seconds": []}
    return {"row": name, "span": "interval", "unit": "", "aim": aim, "limit": "", "note": ""} | (
        numbers | more
    )


# Parts


def parts(work: Path) -> list[Part]:
    return [make(work) for make in bench_parts.PARTS.values()]


def test_the_plan_fits_into_half_an_hour(tmp_path: Path) -> None:
    assert sum(part.minutes for part in parts(tmp_path)) <= 30
    names = list(bench.PARTS)
    text = bench.plan([*names, "course"], tmp_path)
    assert all(f"{name} " in text for name in [*names, "course"])
    assert text.splitlines()[-1].startswith("28 minutes at most")
    assert not [*tmp_path.iterdir()]  # a plan makes nothing


def test_each_part_has_a_known_equal_pair_beside_its_comparisons(tmp_path: Path) -> None:
    for part in parts(tmp_path):
        compared = [ratio for ratio in part.ratios if ratio.theirs]
        again, way = part.equal
        assert bool(again) == bool(compared), part.name
        if again:
            assert again == f"{way} again"
            assert way in {ratio.theirs for ratio in compared} | {part.ratios[0].ours}, part.name


def test_the_aims_that_are_looked_at_stand_in_their_rows(tmp_path: Path) -> None:
    aims = {ratio.name: ratio.aim for part in parts(tmp_path) for ratio in part.ratios}
    assert aims["small CNN, tuned DDP / two that never talk"] == "≥ 0.93"
    assert aims["our bucketed DDP / torch's, time of a step"] == "≤ 1.05"
    assert aims["compiled / eager, both NCHW fp32"] == "≥ 1.3"
    assert aims["C++ all-reduce / gloo, 1 MB"] == "≥ 10"
    assert aims["C++ all-reduce / gloo, 25 MB"] == "≥ 3"
    assert aims["C++ all-reduce / one memcpy, 25 MB, time"] == "≤ 2"
    assert aims["MLP, tuned DDP on C++ / two that never talk"] == "≥ 0.85"


def all_names(work: Path, bf16: list[str], monkeypatch) -> set[str]:
    """The names of all rows, where nothing is launched; `bf16`: the units of the CPU."""
    monkeypatch.setattr(bench_parts, "bf16_units", lambda: bf16)
    names = {ratio.name for part in parts(work) for ratio in [*part.ratios, part.known_equal()]}
    monkeypatch.setattr(long, "start", lambda *command, **more: None)
    args = Namespace()
    return names | {row["row"] for row in long.course(args, work)}


def test_every_row_that_is_kept_is_one_that_the_bench_makes_today(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(long, "ROOT", tmp_path)  # no notebooks
    today = all_names(tmp_path, ["amx_bf16"], monkeypatch) | all_names(tmp_path, [], monkeypatch)
    kept = [row["row"] for row in KEPT["rows"]]
    assert kept
    assert not [name for name in kept if name not in today]


def test_kept_rows_say_what_their_ends_are() -> None:
    assert {row["span"] for row in KEPT["rows"]} <= {"interval", "range", "once", "count"}
    assert all(row["low"] <= row["ratio"] <= row["high"] for row in KEPT["rows"])
    for row in KEPT["rows"]:
        assert (row["rounds"] >= 8) == (row["span"] == "interval"), row["row"]


@pytest.mark.parametrize(
    ("name", "model", "file"),
    [
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "6-79", "bench-intel-xeon-cpu-6-79-4-cores.json"),
        ("AMD EPYC 7B13", "25-1", "bench-amd-epyc-7b13-25-1-4-cores.json"),
        ("", "", "bench-aarch64-4-cores.json"),
    ],
)
def test_a_run_is_kept_under_the_name_of_its_processor(name: str, model: str, file: str) -> None:
    machine = {"name": name, "model": model, "processor": "aarch64", "cores": 4}
    assert bench_machine.file_name(machine) == file


def test_the_processor_is_read_from_linux(tmp_path: Path, monkeypatch) -> None:
    text = "cpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Some CPU\nflags\t\t: fpu avx512_bf16\n"
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(bench_machine, "CPUS", tmp_path / "cpuinfo")
    assert bench_machine.bf16_units() == ["avx512_bf16"]
    assert bench_machine.machine()["model"] == "6-207"
    monkeypatch.setattr(bench_machine, "CPUS", tmp_path / "missing")
    assert bench_machine.bf16_units() == []
    assert bench_machine.machine()["model"] == ""


@pytest.mark.parametrize("keep", [False, True])
def test_a_run_is_written_into_build_and_kept_on_request(tmp_path, monkeypatch, keep: bool) -> None:
    (tmp_path / "assets").mkdir()
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    monkeypatch.setattr(bench, "BUILD", tmp_path / "build")
    monkeypatch.setattr(bench, "draw", lambda *_: None)
    machine = {"name": "A CPU", "model": "1", "processor": "x", "cores": 2}
    bench.save([], machine, "title", keep)
    text = (tmp_path / "build" / "bench.json").read_text()
    assert json.loads(text) == {"machine": machine, "rows": []}
    kept = [path.name for path in (tmp_path / "assets").iterdir()]
    assert kept == (["bench-a-cpu-1-2-cores.json"] if keep else [])


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
    assert bench.chosen(Namespace(parts=[], **options)) == list(bench.PARTS) + added
    assert bench.chosen(Namespace(parts=["loader"], **options)) == ["loader", *added]
    assert bench.chosen(Namespace(parts=["course"], **NO_OPTION)) == ["course"]


def test_real_known_equal_pairs_are_shared_out_among_the_parts(
    tmp_path, monkeypatch, capsys
) -> None:
    equal, equal_launches = fixed(1, ours=1.0, theirs=2.0, again=2.0)
    other, other_launches = fixed(1, ours=1.0, theirs=2.0, again=2.1)
    monkeypatch.setattr(bench, "PARTS", {"equal": lambda _: equal, "other": lambda _: other})
    work = Work("COURSE_BENCH", "a test", tmp_path)
    args = Namespace(parts=[], aa=5, rounds=20, **NO_OPTION)
    assert bench.known_equal(args, work) == 2  # three pairs of the first part, two of the other
    assert equal_launches == [20] * 8  # up to the last look but one
    assert other_launches == [20]  # all its pairs are decided by their first look
    assert "2 of 5 pairs differ" in capsys.readouterr().out


def test_pairs_of_a_part_without_any_are_no_success(tmp_path) -> None:
    args = Namespace(parts=["site"], aa=5, rounds=20, **NO_OPTION)
    with pytest.raises(bench.Failed, match="no known-equal pair in site"):
        bench.known_equal(args, Work("COURSE_BENCH", "a test", tmp_path))


def test_copies_of_a_way_are_measured_and_nothing_else(tmp_path) -> None:
    part = bench_parts.PARTS["buckets"](tmp_path).only_pairs(2)
    measured = part.run(2, 0)["seconds"]
    assert {name: len(seconds) for name, seconds in measured.items()} == dict.fromkeys("0123", 2)
    assert [(pair.ours, pair.theirs) for pair in part.ratios] == [("0", "1"), ("2", "3")]


# The table and the figure

ROWS = [
    line("pace", (1.0, 1.5, 2.0), "≥ 1.3"),
    line("good pace", (1.31, 1.4, 1.5), "≥ 1.3", seconds=[0.0249, 7.3e-5]),
    line("slow pace", (1.16, 1.17, 1.18), "≥ 1.3"),
    line("time", (0.6, 0.6, 0.61), "≤ 0.5", note="in bf16"),
    line("impossible", (1.01, 1.04, 1.09), "≥ 0.97", limit="≤ 1"),
    line("old", (1.31, 1.4, 2.0), "≥ 1.3", span="range", rounds=5),
    line("seconds", (3.0, 3.1, 3.2), unit="s"),
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
seconds   {BLANK[10:]}   3.10  3.00 – 3.20         40
"""


def test_the_table_says_what_became_of_each_aim() -> None:
    assert table(ROWS) == TABLE.strip("\n")


def test_the_figure_holds_every_ratio(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(plt, "close", lambda figure: None)
    draw(ROWS, "a machine", tmp_path / "bench.png")
    (ax,) = plt.gcf().axes
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == [row["row"] for row in ROWS if not row["unit"]]
    words = [text.get_text() for text in ax.texts]
    assert words[:2] == ["1.50, aim ≥ 1.3", "1.40, aim ≥ 1.3"]
    assert (tmp_path / "bench.png").stat().st_size > 5000
    monkeypatch.undo()
    plt.close("all")


# What is started, and what ends with it


def test_the_programs_of_all_rooms_are_copied_solved(tmp_path: Path) -> None:
    folder = start.lessons(tmp_path / "flat")
    assert {"ddp.py", "fast.py", "devices.py"} <= {path.name for path in folder.iterdir()}
    marks = [path.name for path in folder.glob("*.py") if "# STUB" in path.read_text()]
    assert not marks


def test_one_part_that_fails_costs_its_own_rows(tmp_path: Path, monkeypatch) -> None:
    def fails(rounds: int, seed: int) -> dict:
        start.start(tmp_path, sys.executable, "-c", "raise ValueError('no compiler')")
        return {}

    good, _ = fixed(1, ours=1.0, theirs=2.0, again=2.0)
    bad = Part("bad", 1, fails, good.ratios)
    three = {"first": lambda _: good, "second": lambda _: bad, "third": lambda _: good}
    monkeypatch.setattr(bench, "PARTS", three)
    work = Work("COURSE_BENCH", "a test", tmp_path)
    args = Namespace(parts=[*three], rounds=20, **NO_OPTION)
    rows, failed = bench.measure_all(args, work)
    assert len(rows) == 2 * 5
    (message,) = failed
    assert message.startswith("second: ")
    assert "no compiler" in message


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
