"""Pictures of a run have an alternative text, and whoever runs a notebook notices nothing else."""

import copy
import subprocess
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from test_run import RUN, notebook

from course.run.outputs import tell_verdicts

DRAW = """import matplotlib.pyplot as plt
figure, ax = plt.subplots()
ax.plot([1, 2], label="rank 0")
ax.set(xlabel="step", ylabel="loss")
ax.set_title("1 < 2", loc="left")
print("drawn")"""
NAMES = "print([name for name in globals() if 'describe' in name])"


def test_a_picture_says_what_it_shows(tmp_path: Path) -> None:
    """A notebook's counts and names are those that readers have."""
    box = "ax = plt.subplots()[1]\nax.axis('off')\nax.text(0, 0, 'torchrun\\nprocess 7');"
    path = notebook(tmp_path / "a.ipynb", DRAW, box, NAMES)
    executed = tmp_path / "executed"
    command = [sys.executable, "-m", RUN, path, "--executed", executed]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    cells = nbformat.read(executed / "a.ipynb", as_version=4).cells[2:]
    pictures = [output for cell in cells for output in cell.outputs if "data" in output]
    said = [picture.metadata["image/png"]["alt"] for picture in pictures]
    assert said == ["1 < 2. x: step. y: loss. Shown: rank 0.", "torchrun process 7."]
    assert [cell.execution_count for cell in cells] == [2, 3, 4]
    assert cells[2].outputs[0].text == "[]\n"


def test_a_verdict_belongs_to_the_pictures_of_its_section() -> None:
    picture = {"image/png": {"alt": "Times."}}
    shown = new_output("display_data", {"image/png": ""}, metadata=picture)
    verdict = new_output("stream", text="two\nranks")
    other = new_output("stream", text="no verdict")
    cells = [new_markdown_cell("## One")]
    cells += [new_code_cell(outputs=[copy.deepcopy(shown)])]
    cells += [new_code_cell(outputs=[verdict], metadata={"tags": ["verdict"]})]
    cells += [new_code_cell(outputs=[other]), new_markdown_cell("## Two")]
    cells += [new_code_cell(outputs=[copy.deepcopy(shown)])]
    tell_verdicts(new_notebook(cells=cells))
    said = [cells[place].outputs[0].metadata["image/png"]["alt"] for place in (1, 5)]
    assert said == ["Times. Printed: two ranks", "Times."]
