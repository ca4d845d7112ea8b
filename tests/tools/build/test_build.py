"""The build: from a small course in a temporary folder to notebooks, and what `--check` notices."""

import difflib
import re

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from small_course import ALPHA, BESIDE, DECK, FIRST, LISTED, PROGRAM, ROOMS, SECOND, Small

from course import ROOT
from course.sources import Course, difference

pytestmark = pytest.mark.quick


@pytest.mark.torch  # what includes torch's headers is compiled, too
def test_a_second_build_writes_nothing_and_a_fresh_one_writes_the_same(course: Small):
    before = course.files()
    assert course.build() == 0
    assert course.build("--check") == 0
    assert course.files() == before
    for path in (course.root / "notebooks").rglob("*.ipynb"):
        path.unlink()
    assert course.build() == 0
    texts = {path: text for path, (_, text) in before.items()}
    assert {path: text for path, (_, text) in course.files().items()} == texts


def test_a_notebook_says_where_it_comes_from_and_is_valid(course: Small):
    for path in sorted((course.root / "notebooks").rglob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        source = "*" if path.stem == "workshop" else path.stem
        assert notebook.metadata.course.generated_from.startswith(f"notebooks/src/{source}.md")
    assert course.notebook().metadata.course.quick == {"STEPS": 1}
    assert course.notebook("02_second").metadata.course.needs == ["01"]


def test_a_program_stands_in_its_cell_and_tags_are_kept(course: Small):
    cells = {cell.source.splitlines()[0]: cell for cell in course.notebook().cells}
    assert cells["%%writefile alpha.py"].source == f"%%writefile alpha.py\n{ALPHA}".rstrip("\n")
    assert cells["from shutil import which"].metadata == {"tags": ["parameters"]}
    folded = cells["%%writefile launch.py"].metadata
    assert folded["jupyter"] == {"source_hidden": True}
    assert folded["_kg_hide-input"] and "fold" in folded["tags"]


def test_the_diff_is_computed_and_follows_the_programs(course: Small):
    def expected() -> str:
        texts = [course[path].splitlines() for path in (PROGRAM, BESIDE)]
        for text in texts:
            text[0] = ""  # what the docstring says is no part of it
        lines = difflib.unified_diff(*texts, "alpha.py", "beta.py", n=1, lineterm="")
        return "\n".join(["```diff", *lines, "```"])

    def shown() -> str:
        return next(cell.source for cell in course.notebook().cells if "```diff" in cell.source)

    before = expected()
    assert before in shown() and "+    for number in range(4):" in before
    course.replace(BESIDE, "range(4)", "range(5)")
    assert course.build("--check") == 1
    assert course.build() == 0
    assert expected() != before and expected() in shown()


def test_a_diff_leaves_out_docstrings_and_counts_the_lines_of_whole_programs():
    short = '"""One line."""\n\nimport os\n\na = 1\n'
    long = '"""Two\n\nlines."""\n\nimport os\n\na = 2\n'
    names = ["short.py", "long.py"]
    head = ["--- short.py", "+++ long.py"]
    changed = ["@@ -4,2 +6,2 @@", " ", "-a = 1", "+a = 2"]
    assert list(difference([short, long], names)) == head + changed
    assert list(difference([short, long.replace("2", "1")], names)) == []
    bare = list(difference(["import os\na = 1\n", long], names))
    assert bare[2:] == ["@@ -1,2 +4,4 @@", "+", " import os", "-a = 1", "+", "+a = 2"]
    assert "-a" in list(difference(["a\n", "b\n"], ["a.cpp", "b.cpp"]))


def test_solutions_and_stubs(course: Small):
    stub = course.code()
    solution = course.code("solutions/01_first")
    assert stub[-1].startswith("# ▼▼▼ your code here (1 line)\nguess = 0\nprint(")
    assert "guess = 6 * 7" not in "\n".join(stub)
    assert solution[-2].startswith("guess = 6 * 7\nprint(")
    assert solution[-1] == "assert guess == 42"
    head = "def count(number: int) -> int:\n"
    open_lines = f"{head}    # ▼▼▼ your code here (3 lines)\n    return 0"
    whole_lines = f"{head}    half = number / 2\n\n    return int(2 * half)"
    assert any(text.endswith(open_lines) for text in stub)
    assert any(text.endswith(whole_lines) for text in solution)
    assert "Forty-two" not in course["notebooks/01_first.ipynb"]
    assert "Forty-two" in course["notebooks/solutions/01_first.ipynb"]
    for text in stub + solution:
        assert not re.search("SOLUTION|STUB", text)


@pytest.mark.parametrize("solved", [False, True], ids=["stubs", "solutions"])
def test_every_cell_and_program_compiles(course: Small, solved: bool):
    transform = TransformerManager().transform_cell
    for root in (course.root, ROOT):
        read = Course(root)
        assert read.sources
        for path in read.sources:
            for cell in read.lesson(path, solved).code:
                programs = [text for name, text in cell.files.items() if name.endswith(".py")]
                texts = programs if cell.files else [transform(cell.source)]
                for text in texts:
                    compile(text, cell.place, "exec")


CHANGES = {
    "prose": (FIRST, "Two ranks count.", "Two ranks count on."),
    "code": (FIRST, 'print("✓"', 'print("✔"'),
    "solution": (FIRST, "guess = 6 * 7", "guess = 42"),
    "tag": (FIRST, '["fold", "workshop"]', '["workshop"]'),
    "quick": (FIRST, "STEPS: 1", "STEPS: 2"),
    "needs": (SECOND, '["01"]', "[]"),
    "program": (PROGRAM, "range(3)", "range(2)"),
    "title": (FIRST, "01 · First", "01 · Foremost"),
    "repository": (LISTED, "us/course", "them/course"),
    "table by hand": ("README.md", "數到三 |", "數到 3 |"),
    "deck by hand": (DECK, "total = 0", "total = 1"),
    "number by hand": (DECK, "1.88", "2.00"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_check_is_red_after_any_change(course: Small, change: tuple[str, str, str]):
    course.replace(*change)
    before = course.files()
    assert course.build("--check") == 1
    assert course.files() == before


def test_check_is_green_again_after_the_next_build(course: Small):
    for change in CHANGES.values():
        course.replace(*change)
    assert course.build() == 0
    assert course.build("--check") == 0


def test_a_notebook_without_a_source_is_reported(course: Small, capsys):
    (course.root / "notebooks" / ".ipynb_checkpoints").mkdir()
    course["notebooks/.ipynb_checkpoints/01_first-checkpoint.ipynb"] = "{}"
    assert course.build("--check") == 0
    (course.root / SECOND).rename(course.root / "notebooks" / "src" / "02_other.md")
    (course.root / ROOMS / "02_second").rename(course.root / ROOMS / "02_other")
    assert course.build() == 1
    output = capsys.readouterr().out
    assert "notebooks/02_second.ipynb: no source builds it" in output
    assert "notebooks/solutions/02_second.ipynb: no source builds it" in output
    assert course.build("--check") == 1


@pytest.mark.parametrize("damage", ["edit", "merge conflict"])
def test_a_notebook_edited_by_hand_is_never_overwritten(course: Small, capsys, damage: str):
    path = "notebooks/01_first.ipynb"
    built = course[path]
    if damage == "edit":
        course.replace(path, "Two ranks count.", "Two ranks count on their fingers.")
    else:
        course[path] = f"<<<<<<< HEAD\n{built}=======\n{built}>>>>>>> other\n"
    course.replace(SECOND, "Again,", "Once more,")
    before = course.files()
    for options in ([], ["--check"]):
        assert course.build(*options) == 1
        message = capsys.readouterr().err
        assert f"{path}: this notebook was edited by hand" in message
        assert FIRST in message and "--force" in message
        assert course.files() == before
    assert course.build("--force") == 0
    assert course[path] == built
    assert course.build("--check") == 0
