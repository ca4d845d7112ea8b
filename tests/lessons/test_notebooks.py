"""Every lesson as its readers meet it: run whole, from an empty folder, solved and unsolved.

Ranks are forked from torchrun where nothing in the lesson can tell (scripts/run_forked.py). A
lesson that was green on this machine, and of which nothing has changed, is left out: stamps.py.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest
import stamps
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook, new_output
from whole import FAULT, SOLVED, STRICT, TITLES, both, complaints, printed

import rooms

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
OPTIONS = ["--quick", "--forked", "--limit", str(LIMIT)]


def run(notebooks: list[Path], folder: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, ROOT / "scripts" / "run.py", *notebooks, *OPTIONS]
    command += ["--executed", folder / "executed"]
    limit = 1200 + 120 * len(notebooks)  # run.py has one for each cell
    return subprocess.run(command, capture_output=True, text=True, timeout=limit)


def results(said: str) -> dict[str, str]:
    """Lesson → "ok", or what run.py's table says of its failure."""
    table = said.partition("seconds  result\n")[2]
    rows = re.split(r"^(\S+) +\d+  ", table, flags=re.MULTILINE)
    return dict(zip(rows[1::2], map(str.strip, rows[2::2]), strict=True))


def unsaid(ran: NotebookNode) -> list[str]:
    """What is wrong with the checks of the class notebook, run as a class begins it."""
    said = SAID.findall("".join(map(printed, ran.cells)))
    return [] if said == OPEN else [f"unsolved, the class is told {said}, not {OPEN}"]


class Lesson(NamedTuple):
    """What became of one lesson."""

    skipped: str  # why it was not run
    wrong: list[str]


@pytest.fixture(scope="module")
def lessons(request, tmp_path_factory) -> dict[Path, Lesson]:
    """All lessons that this session asks for, two at a time."""
    folder = tmp_path_factory.mktemp("lessons")
    asked = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    paths = [path for path in SOLVED if any(each.get("lesson") == path for each in asked)]
    outcome = {}
    made = {}
    for path in paths:
        prepared = both(path, folder)
        parts = stamps.parts(prepared, OPTIONS)
        why = stamps.changed(path.stem, parts)
        if why:
            made[path] = prepared, parts
            print(f"{path.stem}: runs ({why})")
        else:
            place = (stamps.STAMPS / f"{path.stem}.json").relative_to(ROOT)
            outcome[path] = Lesson(f"{path.stem}: green before, not run again ({place})", [])
    if made:
        done = run([prepared for prepared, _ in made.values()], folder)
        print(done.stdout)  # with `-rP`: seconds of each
        table = results(done.stdout)
        for path, (_, parts) in made.items():
            result = table.get(path.stem, f"run.py says nothing of it: {done.stderr}")
            wrong = [result]
            if result == "ok":
                ran = nbformat.read(folder / "executed" / path.name, as_version=4)
                wrong = complaints(ran)
                if path.stem == "workshop":
                    wrong += unsaid(ran)
            if not wrong:
                stamps.stamp(path.stem, parts)
            outcome[path] = Lesson("", wrong)
    return outcome


@pytest.mark.parametrize("lesson", SOLVED, ids=lambda path: path.stem)
def test_a_lesson_runs_from_an_empty_folder(lesson: Path, lessons: dict[Path, Lesson]) -> None:
    if lessons[lesson].skipped:
        pytest.skip(lessons[lesson].skipped)
    assert not lessons[lesson].wrong, "\n".join(lessons[lesson].wrong)


def test_a_deprecated_call_is_caught(tmp_path: Path) -> None:
    program = "from torch.cuda.amp import autocast\nautocast()\nopen('old.json', 'w').write('{}')"
    helper = rooms.program("launch").read_text()
    before = [f"%%writefile launch.py\n{helper}", "from launch import result"]
    after = [f"%%writefile old.py\n{program}"]
    after += ["!torchrun --standalone --nproc-per-node=1 old.py", 'result("old")']
    for name, sources in {"loose": before + after, "strict": [*before, STRICT, *after]}.items():
        cells = [new_code_cell(source) for source in sources]
        nbformat.write(new_notebook(cells=cells), tmp_path / f"{name}.ipynb")
    done = run([tmp_path / "loose.ipynb", tmp_path / "strict.ipynb"], tmp_path)
    told = results(done.stdout)
    assert told["loose"] == "ok", done.stdout + done.stderr
    assert told["strict"].startswith('FAILED in cell 6: result("old")')
    ran = nbformat.read(tmp_path / "executed" / "strict.ipynb", as_version=4)
    assert "FutureWarning: `torch.cuda.amp.autocast" in "".join(map(printed, ran.cells))


def test_a_figures_title_is_printed(tmp_path: Path) -> None:
    """In a kernel, with the figures' own callback behind ours."""
    plot = "%matplotlib inline\nimport matplotlib.pyplot as plt\nfigure, ax = plt.subplots()\n"
    sources = [TITLES.read_text(), plot + 'ax.set_title("not yet: two models", loc="left");']
    sources.append('plt.subplots()[1].set_title("✓ one model");')
    path = tmp_path / "figures.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(source) for source in sources]), path)
    convert = [sys.executable, "-m", "jupyter", "nbconvert", "--to", "notebook", "--execute"]
    subprocess.run([*convert, "--inplace", path], check=True, capture_output=True, timeout=120)
    cells = nbformat.read(path, as_version=4).cells
    kinds = [[output.output_type for output in each.outputs] for each in cells]
    assert kinds == [[], ["stream", "display_data"], ["display_data"]]
    assert cells[1].outputs[0].text == "A figure's title: not yet: two models\n"


@pytest.mark.quick
def test_a_check_of_the_class_that_praises_an_unsolved_exercise_is_noticed() -> None:
    marks = [f"{line}\n" for line in OPEN]

    def ran(lines: list[str]) -> NotebookNode:
        outputs = [new_output("stream", text=line) for line in lines]
        return new_notebook(cells=[new_code_cell("check", outputs=outputs)])

    titles = "A figure's title: ✗ not yet all five lines: 60%\n"
    titles += "A figure's title: not yet: 8 steps\nsingle.py is not finished: do not compare\n"
    assert unsaid(ran([titles, *marks])) == []
    for number in range(len(OPEN)):
        assert unsaid(ran([*marks[:number], "✓ done\n", *marks[number + 1 :]]))


def test_a_figure_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    look = rooms.program("figures").read_text()
    drawn = {
        "good": "figure, ax = plt.subplots()\nax.plot([1, 2], label='loss')\nlegend(figure)",
        "small": "plt.subplots(figsize=(9, 3));",
        "small words": "plt.subplots()[1].text(0.5, 0.5, 'tiny', fontsize=9);",
        "covered": "ax = plt.subplots()[1]\nax.plot([1, 2], label='loss')\nax.legend();",
        "high": "plt.subplots(figsize=(6.2, 7));",
    }
    first = [TITLES.read_text(), f"%%writefile figures.py\n{look}"]
    first.append("from figures import legend, plt")
    cells = [new_code_cell(source) for source in [*first, *drawn.values()]]
    nbformat.write(new_notebook(cells=cells), tmp_path / "figures.ipynb")
    convert = [sys.executable, "-m", "jupyter", "nbconvert", "--to", "notebook", "--execute"]
    inplace = [*convert, "--inplace", "figures.ipynb"]
    subprocess.run(inplace, check=True, capture_output=True, timeout=120, cwd=tmp_path)
    ran = nbformat.read(tmp_path / "figures.ipynb", as_version=4).cells[len(first) :]
    said = dict(zip(drawn, map(printed, ran), strict=True))
    assert said["good"] == ""
    assert all(line.startswith(FAULT) for text in said.values() for line in text.splitlines())
    assert "“0.0” is 5." in said["small"] and "“tiny” is 7." in said["small words"]
    assert "a legend stands over the data" in said["covered"]
    assert "7.1 inches high" in said["high"]
