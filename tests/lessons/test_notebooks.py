"""Every lesson as its readers meet it: run whole, from an empty folder, solved and unsolved.

Ranks are forked from torchrun where nothing in the lesson can tell (course.forked).
"""

import re
import subprocess
import sys
from pathlib import Path

import green
import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook, new_output
from whole import FAULT, SOLVED, STRICT, TITLES, complaints, prepared, printed, read_as, to_solve

from course import rooms

ROOT = Path(__file__).resolve().parents[2]
# What the checks of the class say, in their order, when nobody has typed anything. The last line
# is no verdict on ddp.py: it says what not to compare.
OPEN = [
    "✗ not yet: only the last layer learns",
    "✗ not yet: two models, each knows its half",
    "✗ not yet: sampler",
    "✗ not yet: wrapper",
    "✗ not yet: set_epoch",
    "single.py is not finished, so do not compare DDP with it",
]
SAID = re.compile(r"^(?:✗ not yet: .*|single\.py is not finished, .*)$", re.MULTILINE)
# A cell that compiles takes half a minute alone, and three times as long beside other tests on a
# processor of half the speed: the limit is there to end what hangs.
LIMIT = 300  # seconds for one cell
LONGEST = 1800  # for all cells of a lesson
OPTIONS = ["--quick", "--forked", "--first-forked", "--limit", str(LIMIT)]


def run(notebook: Path, folder: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "course.run.notebooks", notebook, *OPTIONS]
    command += ["--executed", folder / "executed"]
    return subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)


def unsaid(ran: NotebookNode) -> list[str]:
    """What is wrong with the checks of the class notebook, run as a class begins it."""
    said = SAID.findall("".join(map(printed, ran.cells)))
    return [] if said == OPEN else [f"unsolved, the class is told {said}, not {OPEN}"]


def wrong(lesson: Path, folder: Path, unsolved: bool = False) -> list[str]:
    """What is wrong with a lesson that is run whole, in this folder."""
    done = run(prepared(lesson, folder, unsolved), folder)
    if done.returncode:
        return [done.stdout[-4000:], done.stderr[-2000:]]
    ran = nbformat.read(folder / "executed" / lesson.name, as_version=4)
    return complaints(ran) + (unsaid(ran) if lesson.stem == "workshop" else [])


@pytest.mark.rests_on(by=lambda lesson: [green.notebook(read_as(lesson)), OPTIONS])
@pytest.mark.parametrize("lesson", SOLVED, ids=lambda path: path.stem)
def test_a_lesson_runs_from_an_empty_folder(lesson: Path, tmp_path: Path) -> None:
    found = wrong(lesson, tmp_path)
    assert not found, "\n".join(found)


@pytest.mark.thorough
@pytest.mark.parametrize("lesson", SOLVED[:-1], ids=lambda path: path.stem)
def test_a_lesson_runs_with_its_unsolved_sections_behind_it(lesson: Path, tmp_path: Path) -> None:
    """In `make test` their stubs are tried by answers.py, each alone; here all in one kernel."""
    found = wrong(lesson, tmp_path, unsolved=True)
    assert not found, "\n".join(found)


@pytest.mark.quick
@pytest.mark.parametrize("lesson", SOLVED[:-1], ids=lambda path: path.stem)
def test_a_lesson_has_something_to_solve(lesson: Path) -> None:
    found = len(to_solve(lesson))
    assert found >= 2, f"{found} sections to solve, at least 2 wanted"


@pytest.mark.rests_on(by=lambda: green.runs(rooms.program("launch")))
def test_a_deprecated_call_is_caught(tmp_path: Path) -> None:
    program = "from torch.cuda.amp import autocast\nautocast()\nopen('old.json', 'w').write('{}')"
    helper = rooms.program("launch").read_text()
    before = [f"%%writefile launch.py\n{helper}", "from launch import result"]
    after = [f"%%writefile old.py\n{program}"]
    after += ["!torchrun --standalone --nproc-per-node=1 old.py", 'result("old")']
    for name, sources in {"loose": before + after, "strict": [*before, STRICT, *after]}.items():
        cells = [new_code_cell(source) for source in sources]
        nbformat.write(new_notebook(cells=cells), tmp_path / f"{name}.ipynb")
    assert run(tmp_path / "loose.ipynb", tmp_path).returncode == 0
    done = run(tmp_path / "strict.ipynb", tmp_path)
    assert done.returncode == 1
    assert 'FAILED in cell 6: result("old")' in done.stdout
    assert "FutureWarning: `torch.cuda.amp.autocast" in done.stdout


@pytest.mark.quick
def test_a_check_of_the_class_that_praises_an_unsolved_exercise_is_noticed() -> None:
    marks = [f"{line}\n" for line in OPEN]

    def ran(lines: list[str]) -> NotebookNode:
        outputs = [new_output("stream", text=line) for line in lines]
        return new_notebook(cells=[new_code_cell("check", outputs=outputs)])

    titles = "A figure's title: ✗ not yet all five lines: 60%\n"
    assert unsaid(ran([titles, *marks])) == []
    for number in range(len(OPEN)):
        assert unsaid(ran([*marks[:number], "✓ done\n", *marks[number + 1 :]]))


@pytest.mark.rests_on(by=lambda: green.runs(rooms.program("figures")))
def test_a_title_is_printed_and_a_figure_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    """In a kernel, with the figures' own callback behind ours."""
    look = rooms.program("figures").read_text()
    drawn = {
        "good": "figure, ax = plt.subplots()\nax.plot([1, 2], label='loss')\nlegend(figure)",
        "small": "plt.subplots(figsize=(9, 3));",
        "small words": "plt.subplots()[1].text(0.5, 0.5, 'tiny', fontsize=9);",
        "covered": "ax = plt.subplots()[1]\nax.plot([1, 2], label='loss')\nax.legend();",
        "high": "plt.subplots(figsize=(6.2, 7));",
        "open": "plt.subplots()[1].set_title('not yet: two models', loc='left');",
        "done": "plt.subplots()[1].set_title('✓ one model');",
    }
    first = [TITLES.read_text(), f"%%writefile figures.py\n{look}"]
    first.append("%matplotlib inline\nfrom figures import legend, plt")
    cells = [new_code_cell(source) for source in [*first, *drawn.values()]]
    nbformat.write(new_notebook(cells=cells), tmp_path / "figures.ipynb")
    convert = [sys.executable, "-m", "jupyter", "nbconvert", "--to", "notebook", "--execute"]
    inplace = [*convert, "--inplace", "figures.ipynb"]
    subprocess.run(inplace, check=True, capture_output=True, timeout=120, cwd=tmp_path)
    ran = nbformat.read(tmp_path / "figures.ipynb", as_version=4).cells[len(first) :]
    assert [cell.outputs[-1].output_type for cell in ran] == ["display_data"] * len(drawn)
    said = dict(zip(drawn, map(printed, ran), strict=True))
    assert said.pop("open") == "A figure's title: not yet: two models\n"
    assert said["good"] == said["done"] == ""
    assert all(line.startswith(FAULT) for text in said.values() for line in text.splitlines())
    assert "“0.0” is 5." in said["small"] and "“tiny” is 7." in said["small words"]
    assert "a legend stands over the data" in said["covered"]
    assert "7.1 inches high" in said["high"]
