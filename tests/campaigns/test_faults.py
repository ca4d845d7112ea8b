"""The judge of `make faults` can say no: all that must not be lost is lost here, and called so."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import faults_training
import pytest
from faults import KINDS, jobs, table
from faults_notebook import OK, REPORT, judge, repository
from faults_processes import STAMP, Lost, gone, marked, start, still, wait
from faults_rooms import ROOMS
from faults_training import EVERY, Training

import checkpoint

TABLE = "\nlesson  seconds  result\nsmall        3  ok\n"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return repository(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def clean(copy: Path):
    """The copy, mended again afterwards."""
    (copy / REPORT).unlink(missing_ok=True)
    yield copy
    subprocess.run(["git", "checkout", "-q", "."], cwd=copy, check=True)
    subprocess.run(["git", "clean", "-qf"], cwd=copy, check=True)


def test_what_is_well_is_not_lost(clean: Path) -> None:
    (clean / REPORT).write_text(OK)
    judge(clean, 0, TABLE, done=True)
    (clean / REPORT).write_text(OK.replace("true", "false"))
    judge(clean, 1, "small: FAILED in cell 4, 3 s", done=False)


@pytest.mark.parametrize(
    ("claim", "code", "said", "report"),
    [
        ("exit code", 0, "", '{"runs": []}'),
        ("table", 1, TABLE, '{"runs": []}'),
        ("table", 1, "small: ok, 3 s", '{"runs": []}'),
        ("report", 1, "", OK),
    ],
)
def test_a_notebook_wrongly_ok_is_lost(
    clean: Path, claim: str, code: int, said: str, report: str
) -> None:
    (clean / REPORT).write_text(report)
    with pytest.raises(Lost, match=f"the {claim} says ok"):
        judge(clean, code, said, done=False)


def test_damaged_files_are_lost(clean: Path) -> None:
    path = clean / "notebooks" / "small.ipynb"
    whole = path.read_text()
    harm = [("", "damaged"), (whole[:-20], "damaged")]
    harm.append((whole.replace("the sum", "x"), "lost cells"))
    for text, reason in harm:
        path.write_text(text)
        with pytest.raises(Lost, match=reason):
            judge(clean, 1, "", done=False, outputs=True)
        with pytest.raises(Lost, match="have changed"):
            judge(clean, 1, "", done=False)
    path.write_text(whole + "\n")  # written anew, without what was to be brought back
    with pytest.raises(Lost, match="lost its outputs"):
        judge(clean, 1, "", done=False, outputs=True)
    path.write_text(whole)
    (clean / "scripts" / "stray.py").touch()
    with pytest.raises(Lost, match="stray"):
        judge(clean, 1, "", done=False)


def test_a_process_that_lives_on_is_lost() -> None:
    process = subprocess.Popen(["sleep", "60"], env=os.environ | {STAMP: "a test"})
    try:
        with pytest.raises(Lost, match=r"alive after 0\.2 s: sleep 60"):
            gone("a test", seconds=0.2)
        gone("another test", seconds=0.2)
        gone("a test", among=[1], seconds=0.2)
    finally:
        process.kill()
    gone("a test")  # not yet waited for, it is a zombie: no process that lives
    assert process.wait() and not marked("a test")


def log(training: Training, *steps: int) -> None:
    (training.folder / "run").mkdir(exist_ok=True)
    lines = [json.dumps({"process": 1, "step": step}) + "\n" for step in steps]
    (training.folder / "run" / "log").write_text("".join(lines) + '{"process": 1, "st')


def test_torn_and_missing_checkpoints_are_lost(tmp_path: Path) -> None:
    from checkpoint import path_of, save

    training = Training(tmp_path / "home", "", random.Random())
    training.inspect()
    folder = training.folder / "run"
    log(training, *range(1, EVERY + 1))
    training.inspect()  # the last step is logged, and may not have been saved
    log(training, *range(1, EVERY + 2))
    with pytest.raises(Lost, match=f"of step 0, where {EVERY} was saved"):
        training.inspect()
    for rank in (0, 1):
        save({}, path_of(folder, EVERY, rank, 2))
    training.inspect()
    assert training.kept == EVERY
    os.truncate(path_of(folder, EVERY, 1, 2), 100)
    with pytest.raises(Lost, match=r"not atomic.*rank-1-of-2\.pt is not a checkpoint"):
        training.inspect()
    path_of(folder, EVERY, 1, 2).unlink()
    with pytest.raises(Lost, match="newest checkpoint is of step 0"):
        training.inspect()


LIFE = """
import json, os, signal, sys, time
heard, left = [], int(sys.argv[1])
signal.signal(signal.SIGINT, lambda *_: heard.append(True))
for step in range(1, 3000):
    left -= bool(heard)
    if os.environ["RANK"] == "0" and left > 0:
        with open("run/log", "a") as log:
            print(json.dumps({"step": step, "process": os.getpid()}), file=log)
    time.sleep(0.01)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("left", [1000, 10])
def test_a_life_may_drop_an_interrupt_but_not_halt(
    left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults_training, "gone", lambda mark, among: gone(mark, among, 0.5))
    monkeypatch.setattr(
        faults_training,
        "wait",
        lambda condition, seconds, *pause: wait(condition, min(seconds, 5)),
    )
    # While rank 0 trains.
    chance = random.Random()
    chance.random = lambda: 0.3
    chance.randrange = lambda n: 0
    training = Training(tmp_path / "home", str(tmp_path), chance)
    (training.folder / "run").mkdir()
    life = [sys.executable, "-c", LIFE, left]
    ranks = [start(life, training.folder, training.mark, RANK=str(rank)) for rank in (0, 1)]
    training.agent = start(["sleep", "60"], training.folder, "another")
    try:
        if left > 20:
            assert training.strike("rank", signal.SIGINT)
            assert training.unhurt == {rank.pid for rank in ranks}
            seen = []

            def usable(*_) -> dict:
                seen.extend(still(rank.pid) for rank in ranks)
                return {}

            monkeypatch.setattr(checkpoint, "usable", usable)
            training.inspect()  # what it does meanwhile does not count: it has saved nothing so far
            assert seen and all(seen)
            assert wait(lambda: not any(still(rank.pid) for rank in ranks), 5)
        else:
            with pytest.raises(Lost, match="alive after"):
                training.strike("rank", signal.SIGINT)
    finally:
        for process in (*ranks, training.agent):
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    ("code", "lives", "reason"),
    [(0, [1, 2, 2], ""), (1, [2], "exit code 1"), (0, [1, 2, 3], "nothing hit it")],
)
def test_a_training_that_ends_badly_is_lost(
    tmp_path: Path, code: int, lives: list[int], reason: str
) -> None:
    training = Training(tmp_path / "home", "a test", random.Random())
    results = {"lives": [{"process": life} for life in lives]}
    (training.folder / "resume.json").write_text(json.dumps(results))
    training.agent = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"])
    training.hit = {1}
    training.agent.wait()
    training.begin = lambda pause: None
    if reason:
        with pytest.raises(Lost, match=reason):
            training.finish()
    else:
        assert training.finish()["lives"]


def test_the_table_counts_and_tells_how_to_repeat(capsys: pytest.CaptureFixture) -> None:
    assert table({("rank SIGINT", 3, 2): ["", ""]}) == 0
    assert table({("rank SIGINT", 3, 2): ["", "a reason"], ("rank SIGINT", 5, 1): [""]}) == 1
    said = capsys.readouterr().out
    assert "rank SIGINT                          3         2     1" in said
    again = 'python tests/campaigns/faults.py --seed 3 --tries 2 --only "rank SIGINT"'
    assert f"try 2 of 2: a reason\n    {again}" in said


def test_a_lost_try_is_repeated_with_its_seed() -> None:
    everything = jobs("", 14, 100)
    assert sum(tries for kind, _, tries in everything if kind in KINDS) == 210
    assert {kind for kind, *_ in everything} == {*KINDS, *ROOMS}
    for kind, seed, tries in everything:
        assert (kind, seed, tries) in jobs(kind, tries, seed)
