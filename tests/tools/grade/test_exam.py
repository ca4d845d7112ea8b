"""The exam: what is drawn, what students get of it, and what sheets are worth."""

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from course import ROOT
from course.build import __main__ as build
from course.exam import draw, paper
from course.grade import __main__ as grade
from course.grade.exam import right
from course.outputs import as_text
from course.sources import Course

quick = pytest.mark.quick
SEEDS = range(1000, 1024)
SOURCE = Path("notebooks", "src", "exam.md")

spec = importlib.util.spec_from_file_location("made_up", ROOT / "tests" / "campaigns" / "sheets.py")
made_up = importlib.util.module_from_spec(spec)
spec.loader.exec_module(made_up)


def words(seed: int) -> dict[str, draw.Drawn]:
    return draw.everything(Random(f"{seed} secret"))


# ---- what is drawn


@quick
def test_each_task_has_many_variants() -> None:
    for task in draw.TASKS:
        assert len({repr(words(seed)[task.__name__]) for seed in SEEDS}) >= 4, task
    mends = {tuple(sorted(paper.Exam(ROOT, seed, "secret").faults)) for seed in SEEDS[:8]}
    assert len(mends) >= 4
    # Other numbers alone do not make another task.
    kinds = [words(seed) for seed in SEEDS]
    assert len({each["evaluate"].kind for each in kinds}) >= 4
    assert len({each["resume"].kind for each in kinds}) == 4
    assert len({(each["convert"].schedule, each["convert"].every) for each in kinds}) == 4
    assert len({tuple(case.answer for case in each["choose"].cases) for each in kinds}) >= 4
    assert len({each["budget"].longest for each in kinds}) >= 3


@quick
def test_a_seed_and_a_secret_give_one_exam() -> None:
    first = as_text(paper.Exam(ROOT, 7, "secret").book(True))
    assert first == as_text(paper.Exam(ROOT, 7, "secret").book(True))
    assert first != as_text(paper.Exam(ROOT, 8, "secret").book(True))
    assert first != as_text(paper.Exam(ROOT, 7, "another").book(True))


@quick
def test_eight_tasks_of_a_hundred_points() -> None:
    points = paper.Exam(ROOT, 7, "secret").points
    assert list(points) == [str(task) for task in range(1, 9)]
    assert sum(sum(worth.values()) for worth in points.values()) == 100


@quick
@pytest.mark.parametrize("seed", SEEDS)
def test_the_answers_follow_from_what_students_read(seed: int) -> None:
    drawn = words(seed)
    log = drawn["log"]
    budget = drawn["budget"]
    ranks = {}
    for told in re.split(r"\[\d\]:\n", log.text)[1:]:
        ranks[int(re.search(r"rank +: (\d)", told)[1])] = told
    (first,) = [rank for rank, told in ranks.items() if "Error" in told and "closed" not in told]
    assert log.first == first
    assert f'File "train.py", line {log.line}, in main' in ranks[first]
    assert log.ended == sum("received by PID" in told for told in ranks.values())
    visible = {name: budget[name] for name in ("load", "forward", "backward", "optimizer")}
    visible["message"] = budget.message - budget.hidden
    assert budget.step == sum(visible.values())
    assert [n for n, ms in visible.items() if ms >= visible[budget.longest]] == [budget.longest]
    assert budget.sent == 2 * (budget.ranks - 1) * budget.size / budget.ranks
    assert (budget.pays - 1) * budget.saves < 1000 * budget.compiling <= budget.pays * budget.saves
    for case in drawn["choose"].cases:
        needs = 16 * case.millions / 1000
        fits = needs <= 0.7 * case.memory
        assert fits or needs / case.cards <= 0.7 * case.memory
        assert case.answer == (("DDP" if case.launch else "DP") if fits else "FSDP")


PRINTS = """
import contextlib, io, json, os, sys
sys.path[:0] = sys.argv[1:]
os.chdir(sys.argv[2])
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler
import ranks

def run(code, count):
    printed = io.StringIO()
    if count > 1:
        dist.init_process_group("gloo")
    with contextlib.redirect_stdout(printed):
        exec(code, {**globals()})
    if count > 1:
        dist.barrier()
    return {"value": float(printed.getvalue())}

for code, count in json.load(sys.stdin):
    each = ranks.among(count, lambda: run(code, count))
    print(json.dumps([rank.get("value", rank) for rank in each]))
"""


@pytest.mark.torch
def test_each_piece_of_code_prints_what_the_key_says(tmp_path: Path) -> None:
    pieces = [kind(Random(seed)) for kind in draw.OUTPUTS for seed in (1, 2)]
    jobs = []
    for code, _ in pieces:
        ranks = re.search(r"(\d) ranks;", code)
        jobs.append([draw.dedent(code), int(ranks[1]) if ranks else 1])
    command = [sys.executable, "-c", PRINTS, ROOT / "scripts" / "course" / "grade", tmp_path]
    done = subprocess.run(command, input=json.dumps(jobs), capture_output=True, text=True)
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    wanted = [[answer] * ranks for (_, answer), (_, ranks) in zip(pieces, jobs, strict=True)]
    assert printed == wanted, done.stderr


# ---- what students get


@quick
@pytest.mark.parametrize("seed", SEEDS[:8])
def test_the_students_file_has_no_answer(seed: int) -> None:
    exam = paper.Exam(ROOT, seed, "a secret")
    sheet = exam.book(solved=False)
    text = as_text(sheet)
    for word in ("SOLUTION", "STUB", "FAULT", "a secret"):
        assert word not in text
    assert not any(cell.metadata or cell.get("outputs") for cell in sheet.cells)
    assert sheet.metadata.course.keys() == {"generated_from", "built"}
    key = {cell.id: cell.source for cell in exam.book(solved=True).cells}
    given = {cell.id: cell.source for cell in sheet.cells}
    assert key.keys() == given.keys()
    different = [name for name in key if key[name] != given[name]]
    assert len(different) == 8
    for name in different:
        answers = set(key[name].splitlines()) - set(given[name].splitlines())
        assert len(answers) >= 3  # so they are not in the cell where they belong
        if not given[name].startswith("%%writefile"):
            assert not any(line in text for line in answers)


@quick
def test_the_exam_is_no_lesson() -> None:
    course = Course(ROOT)
    assert not any("exam" in path.stem for path in course.sources)
    assert not any("exam" in kernel["code_file"] for kernel in course.listed["kernels"])
    assert not list((ROOT / "notebooks").rglob("exam*.ipynb"))
    assert subprocess.run(["git", "check-ignore", "-q", paper.SECRET], cwd=ROOT).returncode == 0


# ---- make exam


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A course of which there is only the exam."""
    (tmp_path / SOURCE).parent.mkdir(parents=True)
    (tmp_path / SOURCE).write_text((ROOT / SOURCE).read_text())
    return tmp_path


def make(root: Path, seed: str) -> int:
    return build.main(["--exam", seed, "--root", str(root)])


@quick
def test_an_exam_and_its_key_and_a_secret_that_is_made_once(root: Path, capsys) -> None:
    assert make(root, "1234") == 0
    secret = root / paper.SECRET
    assert f"{secret}: made" in capsys.readouterr().out
    assert secret.stat().st_mode & 0o777 == 0o600
    kept = secret.read_text()
    made = {path.name: path.read_text() for path in (root / "build" / "exam").iterdir()}
    assert made.keys() == {"exam-1234.ipynb", "key-1234.ipynb"}
    assert make(root, "1234") == 0 and make(root, "5") == 0
    assert secret.read_text() == kept
    assert str(secret) not in capsys.readouterr().out
    for name, text in made.items():
        assert (root / "build" / "exam" / name).read_text() == text


def files(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def spoil_seed(root: Path) -> int:
    return make(root, "12e4")


def spoil_secret(root: Path) -> int:
    (root / paper.SECRET).write_text("another")
    return make(root, "1234")


def empty_secret(root: Path) -> int:
    (root / paper.SECRET).write_text("\n")
    return make(root, "1234")


@quick
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_seed, "SEED=12e4: a seed is a whole number, as in `make exam SEED=1234`."),
        (lambda root: make(root, ""), "SEED=: a seed is a whole number"),
        (spoil_secret, "exam-1234.ipynb: it is there, and says something else: move it away"),
        (empty_secret, "exam-secret: it is empty: put the secret back"),
    ],
)
def test_what_make_exam_refuses(root: Path, capsys, spoil: Callable, message: str) -> None:
    assert make(root, "1234") == 0
    before = files(root)
    assert spoil(root) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    changed = {path for path, content in files(root).items() if before.get(path) != content}
    assert changed <= {root / paper.SECRET}


# ---- make grade EXAM=1


def sheets_of(root: Path, seed: str) -> Path:
    """A folder with a sheet of an exam."""
    folder = root / "sheets"
    folder.mkdir()
    text = (root / "build" / "exam" / f"exam-{seed}.ipynb").read_text()
    (folder / "student-01.ipynb").write_text(text)
    return folder


def nothing_there(root: Path) -> str:
    (root / "sheets").mkdir()
    return "1234"


def letters(root: Path) -> str:
    nothing_there(root)
    (root / "sheets" / "letter.txt").write_text("no notebook")
    return "1234"


def other_seed(root: Path) -> str:
    make(root, "77")
    sheets_of(root, "77")
    return "1234"


def other_secret(root: Path) -> str:
    sheets_of(root, "1234")
    (root / paper.SECRET).write_text("another")
    return "1234"


def two_exams(root: Path) -> str:
    make(root, "77")
    sheets_of(root, "1234")
    return ""


def no_secret(root: Path) -> str:
    sheets_of(root, "1234")
    (root / paper.SECRET).unlink()
    return ""


def no_number(root: Path) -> str:
    sheets_of(root, "1234")
    return "ten"


@quick
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (nothing_there, "sheets: it holds no sheet of an exam: name the folder"),
        (letters, "sheets: it holds no sheet of an exam: name the folder"),
        (other_seed, "sheets: its sheets are of exam 77-"),
        (other_seed, "name their seed, SEED=77."),
        (other_secret, "take the exam-secret and the version of the course"),
        (two_exams, "the exams made here are of seeds 1234, 77: say which one it is"),
        (no_secret, "without the file with which the exam was made it cannot be graded"),
        (no_number, "SEED=ten: a seed is a whole number"),
    ],
)
def test_what_cannot_be_graded(
    root: Path, capsys, monkeypatch, spoil: Callable, message: str
) -> None:
    make(root, "1234")
    seed = spoil(root)
    capsys.readouterr()
    before = files(root)
    arguments = ["grade", str(root / "sheets"), "--root", str(root), "--exam", seed]
    monkeypatch.setattr(sys, "argv", arguments)
    assert grade.main() == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert files(root) == before


@quick
@pytest.mark.parametrize(
    ("answer", "wanted", "same"),
    [
        (3, 3, True),
        (3.0, 3, True),
        ("3", 3, False),
        (True, 1, False),
        (1, True, False),
        (None, 3, False),
        (" ddp", "DDP", True),
        ("DP", "DDP", False),
        (float("nan"), 3, False),
        (0.599390721, "0.59939072", False),
    ],
)
def test_when_an_answer_is_right(answer: object, wanted: object, same: bool) -> None:
    assert right(answer, wanted) == same


@pytest.mark.torch
def test_five_sheets_get_exactly_their_points(tmp_path: Path) -> None:
    """All of them: python tests/campaigns/sheets.py."""
    names = ["empty", "perfect", "reads", "no sampler", "another seed"]
    rows = made_up.grade(names, tmp_path)
    known = made_up.sheets()
    assert {name: int(rows[name]["points"]) for name in names} == {
        name: known[name][0] for name in names
    }
    page = (tmp_path / "build" / "exam" / f"grades-{made_up.SEED}" / "index.html").read_text()
    assert "Sheets: 5." in page and "share: not right (2)" in page and ">share, order<" in page
