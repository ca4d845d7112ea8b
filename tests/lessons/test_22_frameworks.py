"""Lesson 22 where its notebook does not look.

The frameworks are here, so no row is a kept one; what the lesson says when one of them cannot be
had; that the kept runs are what a run still gives; and who holds what.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from ranks import launch

import fetch
import ground
import importcost
from course import rooms
from devices import Place
from fourways import WAYS, kept_run
from keptruns import KEPT

SECONDS = 240  # for one launch, on a busy machine
EVERY = ["--ways", *WAYS]
OFF = {"lightning": {"use_distributed_sampler": False}, "deepspeed": {"gradient_clipping": 0.0}}


def test_the_frameworks_are_here() -> None:
    """Red after `make test`? Then a package could not be had: its message is in make's output."""
    there = [name for name in fetch.PINS if (fetch.folder() / name).is_dir()]
    assert there == list(fetch.PINS), f"{fetch.folder()} holds {there}"


def test_every_version_is_pinned_and_torch_is_not_among_them() -> None:
    pins = [pin for pins in fetch.PINS.values() for pin in pins]
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", pin) for pin in pins)
    assert not any(pin.startswith("torch==") for pin in pins)
    assert "--no-deps" in fetch.PIP


def trained(folder: Path, packages: bool, *arguments: str) -> list[dict]:
    """What both ranks reported of fourways.py, with the frameworks in reach or without."""
    paths = [rooms.python_path()]
    if packages:
        paths += [str(fetch.folder() / name) for name in fetch.PINS]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [str(rooms.program("fourways")), *arguments]
    settings = {"PYTHONPATH": os.pathsep.join(paths), "DS_ACCELERATOR": "cpu"}
    settings |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    names = ["fourways.json", "fourways.rank1.json"]
    return [json.loads((folder / name).read_text())["runs"] for name in names]


@pytest.fixture(scope="module")
def switched(tmp_path_factory) -> list[dict]:
    """All six ways, with the two defaults switched off."""
    folder = tmp_path_factory.mktemp("switched")
    (folder / "switched.json").write_text(json.dumps(OFF))
    return trained(folder, True, *EVERY, "--settings", "switched.json")


def test_switched_off_all_ways_have_the_same_bits_on_both_ranks(switched) -> None:
    for runs in switched:
        assert [way for way, run in runs.items() if run["same"]] == list(WAYS)
        assert not any("kept" in run for run in runs.values())


def test_the_momentum_is_shared_out_by_zero_and_the_weights_by_its_third_stage(switched) -> None:
    for runs in switched:
        held = {way: (run["weights held"], run["momentum held"]) for way, run in runs.items()}
        assert held["plain"] == held["accelerate"] == held["lightning"] == (85_002, 85_002)
        assert held["zero1"] == held["zero2"] == (85_002, 42_502)  # each share is an even number
        assert held["zero3"] == (42_501, 42_501)


def test_the_same_ddp_is_inside(switched) -> None:
    for runs in switched:
        assert runs["plain"]["ddp"] == runs["accelerate"]["ddp"] == runs["lightning"]["ddp"] != {}
        assert runs["zero1"]["ddp"] == {}


def test_the_kept_runs_are_what_a_run_still_gives(switched) -> None:
    facts = ["weights held", "momentum held", "steps", "ddp", "same", "gap"]
    assert set(KEPT["switched"]) == set(WAYS) - {"plain"}
    for way, kept in KEPT["switched"].items():
        assert kept["moved"] == pytest.approx(switched[0][way]["moved"], rel=1e-4)
        for rank, runs in enumerate(switched):
            assert {name: kept[name] for name in facts} == {name: runs[way][name] for name in facts}
            assert kept["first"][rank] == runs[way]["first"]
    same = {way: run["same"] for way, run in KEPT["defaults"].items()}
    assert same == {way: way == "accelerate" for way in WAYS if way != "plain"}


def test_without_the_packages_kept_rows_are_marked_and_plain_ddp_runs(tmp_path: Path) -> None:
    for rank, runs in enumerate(trained(tmp_path, False)):
        assert runs["accelerate"]["first"] == runs["plain"]["first"]
        assert runs["plain"]["first"][0] == 16 * rank
        assert [way for way, run in runs.items() if "kept" in run] == [
            "accelerate",
            "lightning",
            "zero1",
        ]
        assert runs["plain"]["same"] and runs["plain"]["steps"] == 40
        [microseconds] = runs["plain"]["microseconds"]
        assert 39 * microseconds < 1e6 * SECONDS and microseconds > 20  # no step is that short
        assert not runs["lightning"]["same"] and not runs["zero1"]["same"]


def test_without_a_package_exercise_2_is_judged_by_the_setting() -> None:
    wrong = {"lightning": {"shuffle": False}, "deepspeed": {"gradient_clipping": 1.0}}
    for way in ("lightning", "zero1", "zero2", "zero3"):
        same = [kept_run(way, settings, 1)["same"] for settings in (OFF, {}, wrong)]
        assert same == [True, False, False]
        assert kept_run(way, OFF, 1)["kept"]
        assert kept_run(way, OFF, 1)["first"][0] == 16


@pytest.mark.parametrize(("offset", "wanted"), [("", True), (".1", False)])
def test_another_version_of_a_framework_does_not_pass_for_ours(
    tmp_path: Path, monkeypatch, offset: str, wanted: bool
) -> None:
    for name, (pin, *_) in fetch.PINS.items():
        number = pin.partition("==")[2] + offset
        info = tmp_path / f"{name}-{number}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert [fetch.has(name) for name in fetch.PINS] == [wanted] * 3


def test_the_imports_take_turns_and_a_missing_one_is_kept(monkeypatch) -> None:
    measured = []
    reported = {}

    def measure(package: str) -> dict:
        measured.append(package)
        return {"seconds": float(len(measured)), "modules": 1}

    place = Place(0, 0, 1, torch.device("cpu"), "gloo")
    monkeypatch.setattr(importcost, "here", lambda: place)
    monkeypatch.setattr(importcost, "has", lambda package: package != "lightning")
    monkeypatch.setattr(importcost, "measured", measure)
    monkeypatch.setattr(importcost, "report", lambda *_, **numbers: reported.update(numbers))
    monkeypatch.setattr(importcost.logging, "disable", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["importcost.py", "--rounds", "3"])
    importcost.main()
    assert measured == ["accelerate", "deepspeed", "deepspeed", "accelerate", *measured[:2]]
    assert [each["seconds"] for each in reported["costs"]["deepspeed"]] == [2, 3, 6]
    assert reported["costs"]["lightning"] == KEPT["imports"]["lightning"]
    assert reported["kept"] == ["lightning"]


def test_a_package_that_cannot_be_had_is_said_in_a_sentence(tmp_path: Path) -> None:
    program = rooms.program("fetch")
    settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "COURSE_FRAMEWORKS": str(tmp_path)}
    settings |= {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}  # as in a notebook
    done = subprocess.run(
        [sys.executable, program, tmp_path / "new"],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 1
    for name in fetch.PINS:
        assert f"{name} cannot be had: its rows are from a kept run, not run here" in done.stdout
        assert f"{name}: ERROR: " in done.stdout  # pip's own reason
    assert not list((tmp_path / "new").iterdir()), "nothing half installed"


def test_what_is_there_is_found_first_and_only_once(tmp_path: Path, monkeypatch, capsys) -> None:
    for name in fetch.PINS:
        (tmp_path / name).mkdir()
    monkeypatch.setenv("COURSE_FRAMEWORKS", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", "/mine")
    monkeypatch.setenv("PATH", "/bin")
    for _ in range(2):
        assert fetch.fetch() == []
    wanted = [str(tmp_path / name) for name in reversed(fetch.PINS)]
    assert os.environ["PYTHONPATH"].split(os.pathsep) == [*wanted, "/mine"]
    assert os.environ["PATH"].split(os.pathsep) == [f"{path}/bin" for path in wanted] + ["/bin"]
    assert capsys.readouterr().out.count("deepspeed==") == 2


def test_the_ranks_rows_are_blocks_of_each_global_batch() -> None:
    every = []
    for rank in range(2):
        rows = ground.own_rows(Place(rank, rank, 2, torch.device("cpu"), "gloo"))
        assert rows[:17] == [*range(16 * rank, 16 * rank + 16), 32 + 16 * rank]
        every += rows
    assert sorted(every) == list(range(1280))


def test_the_witness_notes_rows_times_and_the_first_weights() -> None:
    witness = ground.Witness()
    network = ground.network(witness)
    x = ground.rows().tensors[0]
    before = network[0].weight.detach().clone()
    for first in (5, 3, 9):
        network(x[first : first + 2])
        with torch.no_grad():
            network[0].weight.add_(1)
    assert witness.first == [5, 3, 9] and witness.times == sorted(witness.times)
    assert len(witness.weights) == 2
    change = (witness.weights[1] - witness.weights[0])[: before.numel()]
    assert torch.allclose(change, torch.ones(before.numel()))
    assert witness.ddp == {}


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Two threads of so small a network would wait for each other on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_plain_ddp_gets_the_weights_of_one_process(tmp_path: Path, one_thread: None) -> None:
    """Written out here in float64: the mean over 32 rows, and momentum."""
    program = str(rooms.program("fourways"))
    launch(tmp_path, 2, program, "--ways", "plain", seconds=SECONDS)
    theirs, change = torch.load(tmp_path / "fourways.pt")["plain"]
    network = ground.network(ground.Witness()).double()
    network._forward_pre_hooks.clear()
    x, y = ground.rows().tensors
    speeds = [torch.zeros_like(weight) for weight in network.parameters()]
    first = None
    for step in range(40):
        part = slice(32 * step, 32 * step + 32)
        network.zero_grad()
        torch.nn.functional.cross_entropy(network(x[part].double()), y[part]).backward()
        with torch.no_grad():
            for weight, speed in zip(network.parameters(), speeds, strict=True):
                speed.mul_(0.9).add_(weight.grad)
                weight -= 0.1 * speed
        if first is None:
            first = torch.cat([-0.1 * speed.flatten() for speed in speeds])
    mine = torch.nn.utils.parameters_to_vector(network.parameters())
    assert (theirs - mine).norm() / mine.norm() < 1e-4
    assert (change - first).norm() / first.norm() < 1e-4
