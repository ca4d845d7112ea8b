"""What counts as unchanged, and what does not."""

from pathlib import Path

import pytest

from course import same

pytestmark = pytest.mark.quick

PROGRAM = '''"""What it does."""

import math  # for pi

AREA = """a circle,

# not a comment
"""


def area(radius):
    """數學：the area."""

    # by hand
    return math.pi * radius**2  # twice
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # twice", ""),
        ("# by hand", "# 手算\n    # in two lines"),
        ('"""What it does."""\n', ""),
        ("數學：the area.", "Its area,\n\n    in squares."),
        ("\n\n\ndef", "\n\n# ---\n\n\n\ndef"),
    ],
)
def test_comments_docstrings_and_empty_lines_do_not_run(old: str, new: str) -> None:
    changed = PROGRAM.replace(old, new)
    assert changed != PROGRAM and same.code(changed) == same.code(PROGRAM)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("radius**2", "radius*2"),
        ("a circle,\n\n", "a circle,\n"),
        ("# not a comment", "# no comment"),
        ("    return", "return"),
        ("def area", "@cache\ndef area"),
        ("math.pi", "math.tau / 2"),
    ],
)
def test_all_else_runs(old: str, new: str) -> None:
    changed = PROGRAM.replace(old, new)
    assert changed != PROGRAM and same.code(changed) != same.code(PROGRAM)


def test_a_statement_that_moves_is_another_for_a_traceback_alone() -> None:
    moved = PROGRAM.replace("# by hand", "# by hand\n    # and again")
    assert same.code(moved) == same.code(PROGRAM)
    assert same.placed(moved) != same.placed(PROGRAM)


def test_what_is_no_python_is_compared_as_it_is() -> None:
    assert same.code("a = = 1  # one") != same.code("a = = 1  # two")
    assert same.cell("!echo 1  # one") != same.cell("!echo 1  # two")
    assert same.cell("%timeit 1  # one") != same.cell("%timeit 1  # two")
    assert same.cell("out = !ls  # one") != same.cell("out = !ls  # two")


def test_a_cell_shows_its_last_text_and_no_figure_behind_a_semicolon() -> None:
    assert same.cell("1  # one") == same.cell("1  # two")
    assert same.cell('"one"') != same.cell('"two"')
    assert same.cell("ax.plot(1);") != same.cell("ax.plot(1)")


def test_a_file_is_its_name_and_what_runs(tmp_path: Path) -> None:
    for name, text in {"a.py": "a = 1  # one", "b.sh": "ls  # one"}.items():
        path = tmp_path / name
        path.write_text(text)
        before = same.file(path)
        path.write_text(text.replace("one", "two"))
        assert (same.file(path) == before) == (name == "a.py")
        assert same.file(path.rename(tmp_path / f"c{path.suffix}")) != before


def test_a_digest_looks_at_contents_and_their_places() -> None:
    assert same.digest({"a": 1, "b": 2}) == same.digest({"b": 2, "a": 1})
    assert len({same.digest(*each) for each in (["a", "b"], ["b", "a"], ["ab"], [["a", "b"]])}) == 4
