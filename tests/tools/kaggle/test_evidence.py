"""What runs elsewhere recorded goes into the pages, as long as it belongs to what runs today."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from records import MACHINE, a_cell, a_launch, a_record

from course import ROOT
from course.build.pages import T4
from course.evidence.kept import HEADLINES, KAGGLE, numbers
from course.evidence.page import field, head, others, two_t4s
from course.evidence.record import fit, mark, parsed, what_runs
from course.lesson import Lesson

SOLVED = ROOT / "notebooks" / "solutions"
CODE = {
    name: what_runs(Lesson.at(SOLVED / f"{name}.ipynb").cells) for name in ("06_ddp", "workshop")
}
TABLE = [{"batch": 512, "alone": 0.25, "ddp": 0.125}]


def of_lesson(lesson: str = "06_ddp", **changed: object) -> dict:
    return a_record(notebook=f"solutions/{lesson}", code=CODE[lesson]) | changed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A course whose assets hold no evidence."""
    (tmp_path / "assets").mkdir()
    shutil.copytree(SOLVED, tmp_path / "notebooks" / "solutions")
    return tmp_path


def take_in(root: Path, *runs: dict | str) -> subprocess.CompletedProcess:
    folder = root / "brought"
    shutil.rmtree(folder, ignore_errors=True)
    for number, run in enumerate(runs):
        place = folder / str(number) / "06_run.json"
        place.parent.mkdir(parents=True)
        place.write_text(run if isinstance(run, str) else json.dumps(run))
    command = [sys.executable, "-m", "course.evidence", "--root", root, "--file", folder]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def kept(root: Path) -> dict:
    path = root / "assets" / KAGGLE
    return json.loads(path.read_text()) if path.exists() else {"rows": []}


def test_a_record_is_kept_without_its_owner_and_the_newest_wins(root: Path) -> None:
    first = of_lesson(seconds=500, launches=[a_launch("scaling", table=TABLE)])
    done = take_in(root, first, of_lesson(launches=first["launches"]), of_lesson("workshop"))
    assert done.returncode == 0, done.stdout + done.stderr
    line = "06_ddp: as forecast, ran to the end in 6.0 minutes on 2 × Tesla T4, 2 ✓ and 0 ✗"
    assert f"{line}: kept in assets/{KAGGLE}\n" in done.stdout
    file = kept(root)
    assert [row["row"] for row in file["rows"]] == ["06_ddp", "workshop"]
    row = file["rows"][0]
    assert (row["minutes"], row["gpus"], row["backend"]) == (6, 2, "nccl")
    assert row["numbers"] == {"pace_one": 2050.0, "pace_two": 4100.0, "scaling": 2.0}
    assert set(file["machine"]) == {"gpus", "driver", "torch", "nccl", "python", "kaggle"}


def test_a_check_that_failed_is_told(root: Path) -> None:
    done = take_in(root, of_lesson(cells=[a_cell("print(check)", "✗ not yet")]))
    assert "06_ddp: NOT as forecast, ran to the end" in done.stdout
    assert kept(root)["rows"][0]["wrong"] == 1


def edited(**changed: object) -> dict:
    machine = a_record()["machine"] | changed
    return of_lesson(machine=machine)


FAILED = of_lesson(whole=False)
FAILED["cells"][-1] |= {"error": "AssertionError: "}
REFUSED = {
    "older": (of_lesson(code="0" * 16), "it is of an older version of the lesson"),
    "one GPU": (edited(gpus=["Tesla T4"]), "it ran on Tesla T4: choose GPU T4 ×2"),
    "P100": (edited(gpus=["Tesla P100"]), "it ran on Tesla P100: choose GPU T4 ×2"),
    "no GPU": (edited(gpus=[]), "it ran on no GPU"),
    "a laptop": (edited(gpus=[], kaggle=False), "it ran on no GPU, and this is about GPUs"),
    "failed": (FAILED, "NOT kept: failed in cell 3 (run = result"),
    "half": (of_lesson(whole=False), "without an error, after 6.0 minutes"),
    "unsolved": (of_lesson() | {"notebook": "06_ddp"}, "evidence comes from solved lessons"),
    "unknown": (of_lesson() | {"notebook": "solutions/99_x"}, "it is of solutions/99_x"),
    "no JSON": ("<html>", "it is not the JSON of a record"),
    "too big": (json.dumps(of_lesson()) + " " * 2_000_000, "a record 2,000,000 at most"),
    "script": (edited(gpus=["<script>"] * 2), "it is no record of a run (machine.gpus.0"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_proves_nothing_fills_nothing(root: Path, kind: str) -> None:
    run, said = REFUSED[kind]
    done = take_in(root, run)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert said in done.stdout, done.stdout
    assert not list((root / "assets").iterdir())


@pytest.mark.parametrize("spoilt", ["<<<<<<< HEAD", "[]", '{"machine": {}, "rows": [3]}'])
def test_a_spoilt_file_of_evidence_is_named_and_stays(root: Path, spoilt: str) -> None:
    path = root / "assets" / KAGGLE
    path.write_text(spoilt)
    done = take_in(root, of_lesson())
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith(f"evidence: assets/{KAGGLE}") and "or remove it" in done.stderr
    assert path.read_text() == spoilt


def test_a_missing_file_and_a_machine_without_gpus_are_told(root: Path) -> None:
    command = [sys.executable, "-m", "course.evidence", "--root", root]
    for more, said in (
        (["--file", root / "none.json"], "name a file NN_run.json, or a folder of them"),
        (["--file", root / "assets"], "no record NN_run.json is in"),
        (["99"], "no lesson begins with “99”" if shutil.which("nvidia-smi") else "no GPU here"),
    ):
        done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
        assert said in done.stderr


def test_each_headline_is_read_from_what_its_program_reports() -> None:
    """Made-up reports, in the form that the lessons' programs write."""
    way = {"step": 0.01}
    run = a_record(
        launches=[
            a_launch("pulse", sizes=[1024, 64_000_000], seconds=[0.0004, 0.02]),
            a_launch("pulse", sizes=[1024, 64_000_000], seconds=[9, 9]),
            a_launch("dp", 1, used=[0, 1], peaks=[5, 3], times=[{"plain": [3], "parallel": [2]}]),
            a_launch("scaling", table=TABLE),
            a_launch(
                "speed", 1, ways={"channels last": {"step": 0.02}, "compiled": way, "16 bits": way}
            ),
            a_launch("sprint", runs=[{"seconds": 10.1, "mirrored": 0.91}]),
        ],
        cells=[
            a_cell("x", "FSDP               forecast 10.0 MB: tracked 9.0 MB, allocated 11.0 MB")
        ],
    )
    found = {}
    for line in HEADLINES:
        found |= numbers(run, line.lesson)
    assert found == {
        "latency_ms": 0.4,
        "bandwidth": 3.2,
        "second_device": True,
        "dataparallel": 1.5,
        "pace_one": 2050.0,
        "pace_two": 4100.0,
        "scaling": 2.0,
        "compiled": 2.0,
        "amp": 2.0,
        "fsdp_peak": 1.1,
        "recipe_seconds": 10.1,
        "recipe_percent": 91.0,
    }
    assert numbers(a_record(launches=[]), "06") == {}


def test_the_headlines_name_programs_and_fields_that_lessons_have() -> None:
    for line in HEADLINES:
        [lesson] = SOLVED.glob(f"{line.lesson}_*.ipynb")
        text = lesson.read_text()
        assert f'result(\\"{line.program}\\")' in text or "tracked {peak" in text, line.key


MADE_UP = {
    "06_ddp": {
        "minutes": 7,
        "date": "2026-12-01",
        "gpus": 2,
        "backend": "nccl",
        "torch": "2.10",
        "right": 9,
        "wrong": 0,
        "numbers": {"pace_one": 2000.0, "pace_two": 3700.0, "scaling": 1.85},
    },
    "workshop": {"date": "2026-12-01", "launches": {"hello on 2": 4}, "numbers": {}},
}


def test_the_page_shows_what_was_measured_and_says_where_nothing_was() -> None:
    page = two_t4s(MADE_UP, {"06_ddp": 6, "07_compile": 5})
    assert "\n1 GPU    2,000 █████████\n2 GPU    3,700 ████████████████\n" in page
    assert "| 06 | DDP on two ranks, × one rank · DDP 的速度，是一個 rank 的幾倍 | 1.85 |" in page
    assert "| 06_ddp | 7 | 2 GPU, nccl, torch 2.10, 2026-12-01 | 9/0 |" in page
    assert "| 07_compile | 5, a guess · 估計 5 | not measured yet · 尚未量測 | |" in page
    assert "7 of your GPU minutes (measured on 2026-12-01)" in head(MADE_UP["06_ddp"])[0]
    empty = two_t4s({}, {"06_ddp": 6})
    assert empty.count("not measured yet") == len(HEADLINES) + 1 and "█" not in empty
    machine = {"gpus": ["NVIDIA <b>"], "torch": "2.15", "nccl": ""}
    row = others({"x": {"machine": machine, "rows": list(MADE_UP.values())}}).splitlines()[-1]
    assert row.startswith("| 1 × NVIDIA &lt;b&gt; | 2.15, – | 2 | – | – | 1.85 |")


def test_every_number_that_pages_wait_for_has_a_name() -> None:
    """With a run of the workshop, all of the run sheet's guesses become measured ones."""
    sheet = (ROOT / "assets" / "run-sheet.md").read_text()
    launches = dict.fromkeys(re.findall(r'data-t4="(\w+ on \d)"', sheet), 3)
    assert len(launches) == 10
    solved = Lesson.at(SOLVED / "workshop.ipynb")
    there = {f"{launch.name} on {launch.ranks or 1}" for launch in solved.launches}
    assert launches.keys() <= there, "the workshop has no such launches"
    rows = MADE_UP | {"workshop": MADE_UP["workshop"] | {"launches": launches}}
    for path in ("README.md", "assets/run-sheet.md", "assets/deck.html"):
        spans = T4.findall((ROOT / path).read_text())
        assert spans
        for _, name, otherwise, _ in spans:
            assert field({}, name) is None
            assert field(rows, name) not in (None, otherwise), name


def test_nothing_made_up_is_kept() -> None:
    for path in (ROOT / "assets").glob("*-x[0-9]*.json"):
        assert MACHINE["driver"] not in path.read_text()


@pytest.mark.parametrize(
    ("before", "after", "older"),
    [
        ('"""The smallest DDP', '"""A small DDP', False),
        ("\nimport argparse\n", "\n# words\nimport argparse\n", False),
        ("--global-batch-size", "--global-batch", True),
    ],
    ids=["docstring", "comment", "code"],
)
def test_words_make_no_older_version_and_code_does(before: str, after: str, older: bool) -> None:
    notebook = nbformat.read(SOLVED / "06_ddp.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert any(before in cell.source for cell in code)
    for cell in code:
        cell.source = cell.source.replace(before, after)
    notebook.cells[0].source += " More words."
    assert (what_runs(Lesson.of(notebook).cells) != CODE["06_ddp"]) == older


CELLS = [
    "class launch: launches = {}",
    "small = cut = json = re = time = Path = machine = suppress = about = None",
    "import sys, json; sys.modules['launch'] = launch",
    "print('✓ well')\nprint('x' * 999)",
    "!echo --nproc-per-node=2",
    "launch.launches['prog'] = type('L', (), {'code': 0, 'text': ''})()\n"
    "said = {'world_size': 2, 'long': [0] * 999, 'few': [1], 'bad': float('nan'), 'big': 10**400}\n"
    "json.dump(said, open('prog.json', 'w'))",
    "import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\n"
    "plt.subplots()[1].set_title('2 × faster');",
    "1 / 0",
    "print('never')",
]


def run_recorded(folder: Path, cells: list[str]) -> dict:
    """The record of a notebook of these cells, which papermill runs."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    fit(notebook, "solutions/06_ddp")
    nbformat.write(notebook, folder / "06_ddp.ipynb")
    command = [sys.executable, "-m", "papermill", "06_ddp.ipynb", "out.ipynb", "-k", "python3"]
    subprocess.run(command, cwd=folder, capture_output=True, timeout=120)
    executed = nbformat.read(folder / "out.ipynb", as_version=4)
    [recorder] = [cell for cell in executed.cells if cell.get("id") == "recorder"]
    assert not recorder.outputs, "it prints nothing"
    return json.loads((folder / "06_run.json").read_text())


@pytest.mark.torch
def test_a_notebook_that_fails_leaves_a_record_too(tmp_path: Path) -> None:
    run = run_recorded(tmp_path, CELLS)
    assert parsed(json.dumps(run).encode()) == run
    assert not run["whole"] and len(run["cells"]) == 8
    assert [cell["mark"] for cell in run["cells"]] == [mark(source) for source in CELLS[:8]]
    assert run["cells"][3]["printed"] == ["✓ well", "x" * 200]
    assert run["cells"][6]["printed"] == ["2 × faster"]
    assert run["cells"][7]["error"] == "ZeroDivisionError: division by zero"
    [launch] = run["launches"]
    assert launch["program"] == "prog" and launch["code"] == 0
    assert launch["reported"] == {
        "world_size": 2,
        "long": None,
        "few": [1],
        "bad": None,
        "big": None,
    }
    assert run["machine"]["torch"] and not run["machine"]["kaggle"]


@pytest.mark.torch
def test_a_notebook_that_runs_to_its_end_says_so(tmp_path: Path) -> None:
    run = run_recorded(tmp_path, CELLS[:5])
    assert run["whole"] and run["running"] == ""
    assert run["seconds"] >= sum(cell["seconds"] for cell in run["cells"]) - 1
