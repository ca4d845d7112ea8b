"""Packed code is refused with its place, and what only looks like it is not."""

from pathlib import Path

import pytest

from course.build import style

pytestmark = pytest.mark.quick

VALUES = "two values packed"
NAMES = "a comprehension unpacked"
INSIDE = "an assignment inside a call"
DECIDES = "an expression that decides"
LOOP = "`for … in … if … else …`"
ADDED = "`+= … if … else []`"
PACKED = [
    ("a, b = f(x), g(y)", VALUES),
    ("[a, b] = [1, f(x)]", VALUES),
    ("a, b = 1 + f(x), y", VALUES),
    ("a, b = {}, 1", VALUES),
    ("a, b = [f for f in x], 1", VALUES),
    ("a, b = (f(n) for n in x)", NAMES),
    ("a, *b = [n + 1 for n in x]", NAMES),
    ("f(n := 3)", INSIDE),
    ("f(size=(n := 3))", INSIDE),
    ("f(x[1 + (n := 3):])", INSIDE),
    ("n = x or parser.error('no x')", "`… or error(…)`: write an `if`"),
    ("n = x or sys.exit(1)", "`… or exit(…)`: write an `if`"),
    ("for n in x if y else ():\n    f(n)", LOOP),
    ("[n for n in (x if y else ())]", LOOP),
    ("f() if x else g()", DECIDES),
    ("x and f()", DECIDES),
    ("f(), g()", "two expressions in one statement"),
    ("x += [y] if y else []", ADDED),
    ("x += () if y else (1,)", ADDED),
    ("x[:: 1 if y else -1]", "a decision inside an index"),
]
INNOCENT = [
    "a[0], a[1] = a[1], a[0]",
    "first, second = line.split()",
    "low, high = 0, 10",
    "a, b = b, a + b",
    "[x] = [n for n in y if n]",
    "a = b = f(x)",
    "while line := file.readline():\n    f(line)",
    "f([m for n in x if (m := g(n))])",
    "n = x or f()",
    "n = f() if x else g()",
    "f(1 if x else 2)",
    "chosen = x if y else ()\nfor n in chosen:\n    f(n)",
    "x += [1] if y else [2]",
    "x += 1 if y else 0",
    "x[a:b]",
    "def f():\n    return g(), h()",
    '"""a, b = f(x), g(y)"""',
]


@pytest.mark.parametrize(("code", "problem"), PACKED)
def test_packed_code_is_refused_with_its_place(tmp_path: Path, capsys, code: str, problem: str):
    paths = [str(tmp_path / name) for name in ("one.py", "two.py")]
    for path in paths:
        Path(path).write_text(f"import sys\n\n{code}\n")
    assert style.main(paths) == 1
    for path, line in zip(paths, capsys.readouterr().out.splitlines(), strict=True):
        assert line.startswith(f"{path}:3: {problem}")


@pytest.mark.parametrize("code", INNOCENT)
def test_an_innocent_neighbour_is_not(code: str):
    assert list(style.problems(code, "plain.py")) == []


def test_all_of_the_course_is_judged_and_plain(capsys):
    assert style.main([]) == 0
    assert int(capsys.readouterr().out.split()[0]) > 400
