"""Outputs stay in a notebook while nothing changes that they depend on."""

import base64
import io

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from PIL import Image
from small_course import FIRST, TOOLBOX, Small, code, refused

from course.outputs import NOTHING, Inert, keep_outputs, palette, waits

pytestmark = pytest.mark.quick


def test_outputs_stay_while_nothing_before_them_changes(course: Small):
    course.run()
    assert course.build("--check") == 0
    course.replace(FIRST, "Two ranks count.", "Two ranks count on.")
    assert course.build() == 0
    assert all(course.outputs())
    assert [cell.execution_count for cell in code(course.notebook())] == list(range(1, 9))


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ((FIRST, 'alpha = result("alpha")', 'alpha = result("alpha", rank=1)'), 6),
        ((TOOLBOX, "return 0", "return 1"), 3),
        ((FIRST, "UNUSED = 1\n", "UNUSED = 2\n"), 1),
        ((FIRST, "guess = 6 * 7", "guess = 42"), 8),
    ],
    ids=["cell", "program", "parameters", "solution only"],
)
def test_stale_outputs_go_from_the_changed_cell_on(
    course: Small, change: tuple[str, str, str], kept: int
):
    course.run()
    whole = course.notebook().metadata.course.outputs
    assert whole.torch == "2.10.0" and whole.device == "CPU"
    course.replace(*change)
    assert course.build() == 0
    assert course.outputs() == [True] * kept + [False] * (8 - kept)
    left = course.notebook().metadata.course.get("outputs", {})
    assert (left == whole) == (kept == 8)
    assert left.get("torch") == ("2.10.0" if kept else None)
    assert course.build("--check") == 0


def test_the_solved_workshop_has_outputs_of_its_own_and_the_unsolved_none(course: Small):
    course.run("workshop")
    course.run("solutions/workshop")
    course.replace(FIRST, "UNUSED = 1\n", "UNUSED = 2\n")
    assert course.build() == 0
    assert all(course.outputs("solutions/workshop")[1:]) and not any(course.outputs())
    assert not any(course.outputs("workshop")), "answers below the questions of a class"


def test_the_cell_that_papermill_injects_is_no_edit_and_its_outputs_are_not_taken(course: Small):
    course.run()
    built = course.code()
    injected = course.notebook()
    extra = new_code_cell("# Parameters\nSTEPS = 1", metadata={"tags": ["injected-parameters"]})
    injected.cells.insert(3, extra)
    nbformat.write(injected, course.path("01_first"))
    assert course.build() == 0
    assert course.code() == built
    assert course.outputs()[:2] == [True, True], "a file says the same with other parameters"
    assert not any(course.outputs()[2:])


def test_pieces_of_a_stream_are_joined_and_line_ends_made_plain(course: Small):
    executed = course.notebook()
    first = code(executed)[0]
    pieces = ["rank 0\r\nrank", " 1\r", "\n10 %\r", "100 %\r\n"]
    first.outputs = [new_output("stream", name="stdout", text=text) for text in pieces]
    first.outputs.append(new_output("stream", name="stderr", text="a"))
    first.outputs.append(new_output("display_data", {"text/plain": "b"}))
    committed = course.notebook()
    keep_outputs(executed, committed)
    kept = code(committed)[0].outputs
    assert [output.output_type for output in kept] == ["stream", "stream", "display_data"]
    assert [output.get("text") for output in kept[:2]] == ["rank 0\nrank 1\n100 %\n", "a"]
    assert "outputs" not in committed.metadata.course  # no machine is known


@pytest.mark.torch
def test_a_picture_keeps_the_colours_of_its_lines() -> None:
    """The pictures of this course use four colours and black, often in thin lines."""
    from matplotlib.colors import to_rgb
    from matplotlib.figure import Figure

    wanted = ["#2563eb", "#ea580c", "#216656", "#8b929e", "black"]
    figure = Figure(figsize=(7, 3.6), dpi=110)
    ax = figure.subplots()
    for height, color in enumerate(wanted):
        ax.plot([height, height + 1, height], color=color, linewidth=2)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    small = palette(base64.b64encode(drawn.getvalue()).decode())
    assert palette(small) == small, "it is reduced once"

    image = Image.open(io.BytesIO(base64.b64decode(small)))
    assert len(base64.b64decode(small)) < len(drawn.getvalue()) / 2
    left = [color for _, color in image.convert("RGB").getcolors()]
    for color in wanted:
        own = [round(255 * part) for part in to_rgb(color)]
        distances = [sum(abs(a - b) for a, b in zip(own, other, strict=True)) for other in left]
        assert min(distances) < 20, f"{color} is lost: {min(distances)} of 765 away"


PROGRAM = '''%%writefile alpha.py
"""What it does."""


def double(number):
    """Twice the number."""
    return 2 * number  # by hand
'''


def ran(*sources: str, printed: str = "4") -> nbformat.NotebookNode:
    """A notebook of code cells, each of which has printed something."""
    cells = [code_cell(source, printed) for source in sources]
    return new_notebook(cells=cells, metadata={"course": {"outputs": {"torch": "2.10.0"}}})


def code_cell(source: str, printed: str) -> nbformat.NotebookNode:
    outputs = [new_output("stream", text=printed)]
    return new_code_cell(source, execution_count=1, outputs=outputs)


def kept(old: nbformat.NotebookNode, *sources: str, inert: Inert = NOTHING) -> int:
    new = new_notebook(cells=[new_code_cell(source) for source in sources])
    new.metadata.course = {}
    count = keep_outputs(old, new, inert=inert)
    assert [bool(cell.outputs) for cell in new.cells] == [n < count for n in range(len(sources))]
    assert waits(new) == (count < len(sources))
    told = new.metadata.course.get("outputs", {}).get("inert")
    assert told == (": ".join(inert) if inert.name else None)
    return count


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        ("# by hand", "# with care", 2),
        ("Twice the number.", "A number, doubled.", 2),
        ('"""What it does."""\\n\\n', '"""What it does.\\n\\n"""', 0),
        ("2 * number  # by hand", "3 * number", 0),
        ("2 * number  # by hand", "(\\n        2 * number)", 0),
        ('"""Twice the number."""\\n', '"""Twice.\\n\\n    The number."""\\n', 0),
        ("alpha.py", "beta.py", 0),
    ],
    ids=["comment", "docstring", "longer", "code", "other line", "moved", "name"],
)
def test_a_comment_or_a_docstring_may_change(before: str, after: str, count: int):
    changed = PROGRAM.replace(before.replace("\\n", "\n"), after.replace("\\n", "\n"))
    assert changed != PROGRAM
    assert kept(ran(PROGRAM, "!python alpha.py"), changed, "!python alpha.py") == count


TWICE = PROGRAM + "# once\n# once\n"


@pytest.mark.parametrize(
    ("program", "changed", "printed"),
    [
        (PROGRAM, PROGRAM.replace("by hand", "with care"), "    return 2 * number  # by hand\n"),
        (PROGRAM, PROGRAM.replace('"""\n\n\n', '"""\n# new\n\n'), PROGRAM),
        (TWICE, TWICE.replace("# once", "# twice", 1), TWICE),
        (PROGRAM, PROGRAM.replace("What it does.", "Its work."), "What it does.\n"),
    ],
    ids=["comment", "empty line", "one of two", "docstring alone"],
)
def test_what_was_printed_may_not_change(program: str, changed: str, printed: str):
    assert changed != program
    assert kept(ran(program, "print(source)", printed=printed), changed, "print(source)") == 0


def test_a_line_of_code_may_not_change_places_with_a_comment():
    below = PROGRAM + "number = 1\n# a note\n"
    above = PROGRAM + "# a note\nnumber = 1\n"
    assert kept(ran(below, "!python alpha.py"), above, "!python alpha.py") == 0


def test_a_comment_in_a_cell_may_change_and_a_semicolon_may_not():
    assert kept(ran("1  # one", "2"), "1  # two", "2") == 2
    assert kept(ran("1", "2"), "1;", "2") == 0
    assert kept(ran("!ls  # one", "2"), "!ls  # two", "2") == 0


def test_where_a_file_is_written_does_not_count():
    helper = "%%writefile helper.py\nh = 1"
    old = ran("n = 1", PROGRAM, helper, "!python alpha.py")
    assert kept(old, helper, PROGRAM, "n = 1", "!python alpha.py") == 4
    assert kept(old, "n = 1", helper, PROGRAM, "!python alpha.py") == 4
    assert kept(old, "n = 1", helper, "!python alpha.py", PROGRAM) == 2, "it is not there yet"
    assert kept(old, "n = 1", PROGRAM, "!python alpha.py") == 2, "helper.py is gone"


def test_a_file_is_what_was_written_last():
    first = "%%writefile helper.py\nh = 1"
    second = "%%writefile helper.py\nh = 2"
    old = ran(first, "!python helper.py", second, "!python helper.py")
    assert kept(old, first, "!python helper.py", second, "!python helper.py") == 4
    assert kept(old, first, second, "!python helper.py", "!python helper.py") == 2


def test_a_new_file_waits_and_nothing_else_does():
    new = new_notebook(metadata={"course": {}})
    sources = ["%%writefile helper.py\nh = 1", PROGRAM, "!python alpha.py"]
    new.cells = [new_code_cell(source) for source in sources]
    assert keep_outputs(ran(PROGRAM, "!python alpha.py"), new) == 2
    assert [cell.execution_count for cell in new.cells] == [None, 1, 2]
    assert waits(new)


def test_inert_keeps_outputs_of_the_program_that_it_names():
    old = ran(PROGRAM, "!python alpha.py")
    changed = PROGRAM.replace("2 * number", "number + number")
    inert = Inert("alpha.py", "adds up the same")
    assert kept(old, changed, "!python alpha.py", inert=inert) == 2
    other = new_notebook(metadata={"course": {}})
    other.cells = [new_code_cell(changed), new_code_cell("!python alpha.py")]
    assert keep_outputs(old, other, inert=Inert("beta.py", "why")) == 0
    both = [new_code_cell(changed), new_code_cell("!python alpha.py --fast")]
    new = new_notebook(cells=both, metadata={"course": {}})
    assert keep_outputs(old, new, inert=inert) == 1, "the launch is not excused"
    assert keep_outputs(old, new, inert=Inert(both[1].id, "why")) == 0


def test_inert_adds_its_reason_to_earlier_ones():
    old = ran("1")
    old.metadata.course.outputs.inert = "one.py: why"
    new = new_notebook(cells=[new_code_cell("2")], metadata={"course": {}})
    assert keep_outputs(old, new, inert=Inert(new.cells[0].id, "why not")) == 1
    told = new.metadata.course.outputs.inert
    assert told == f"one.py: why; {new.cells[0].id}: why not"


def test_inert_keeps_nothing_where_cells_were_added():
    new = new_notebook(cells=[new_code_cell("0"), new_code_cell("1")], metadata={"course": {}})
    assert keep_outputs(ran("1"), new, inert=Inert("alpha.py", "why")) == 0


def test_the_reason_comes_from_the_command_line(course: Small, capsys):
    course.run()
    course.replace(TOOLBOX, "return 0", "return 1")
    name = TOOLBOX.rpartition("/")[2]
    refused(course, capsys, "--inert nowhere.py: no program", "--inert", "nowhere.py", "why")
    assert course.build("--inert", name, "nobody asks for it") == 0
    assert all(course.outputs())
    assert course.notebook().metadata.course.outputs.inert == f"{name}: nobody asks for it"
    assert course.build("--check") == 0
    course.run()
    assert "inert" not in course.notebook().metadata.course.outputs


def test_check_names_notebooks_that_wait_for_outputs_and_is_not_red(course: Small, capsys):
    for name in ("01_first", "solutions/01_first"):
        course.run(name)
    course.replace(FIRST, "UNUSED = 1\n", "UNUSED = 2\n")
    assert course.build() == 0
    capsys.readouterr()
    assert course.build("--check") == 0
    told = capsys.readouterr().out
    assert 'waits for outputs: `make outputs LESSONS="01_first"`' in told
    assert "notebooks/solutions/01_first.ipynb: waits for outputs" in told
    assert "notebooks/workshop.ipynb" not in told, "the class's has none on purpose"
