"""The judge of `make faults` can say no: all that must not be lost is lost here, and called so."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from faults_notebook import OK, REPORT, judge, repository
from faults_processes import STAMP, Lost, gone, marked
from faults_training import EVERY, Training

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
