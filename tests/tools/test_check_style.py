"""Packed code is refused with its place, and what only looks like it is not."""

from pathlib import Path

import pytest

from course.build import style

pytestmark = pytest.mark.quick

PACKED = {
    "two calls": ("a, b = f(x), g(y)", "two values packed"),
    "a call and a name": ("args, size = parser.parse_args(), 8", "two values packed"),
    "calls in a list": ("[a, b] = [f(x), g(y)]", "two values packed"),
    "a call deep inside": ("a, b = 1 + f(x), y", "two values packed"),
    "a dict": ("a, b = {}, 1", "two values packed"),
    "a comprehension among values": ("a, b = [f for f in x], 1", "two values packed"),
    "names from a generator": ("a, b = (f(n) for n in x)", "a comprehension unpacked"),
    "names from a list": ("a, *b = [n + 1 for n in x]", "a comprehension unpacked"),
    "walrus": ("f(n := 3)", "an assignment inside a call"),
    "walrus by keyword": ("f(size=(n := 3))", "an assignment inside a call"),
    "walrus inside a sum": ("f(1 + (n := 3))", "an assignment inside a call"),
    "walrus in a slice": ("f(x[(n := 3):])", "an assignment inside a call"),
    "or error": ("n = x or parser.error('no x')", "`… or error(…)`: write an `if`"),
    "or exit": ("n = x or sys.exit(1)", "`… or exit(…)`: write an `if`"),
    "loop or nothing": ("for n in x if y else ():\n    f(n)", "`for … in … if … else …`"),
    "comprehension or nothing": ("[n for n in (x if y else ())]", "`for … in … if … else …`"),
    "choice as a statement": ("f() if x else g()", "an expression that decides"),
    "and as a statement": ("x and f()", "an expression that decides"),
    "two calls in a statement": ("f(), g()", "two expressions in one statement"),
    "some or nothing": ("x += [y] if y else []", "`+= … if … else []`"),
    "nothing or some": ("x += () if y else (1,)", "`+= … if … else []`"),
    "direction": ("x[:: 1 if y else -1]", "a decision inside an index"),
}
INNOCENT = {
    "swap": "a, b = b, a",
    "swap of places": "a[0], a[1] = a[1], a[0]",
    "one returned tuple": "x, y = f()",
    "one tuple in a method": "first, second = line.split()",
    "names": "a, b = c, d",
    "constants": "low, high = 0, 10",
    "sums": "a, b = b, a + b",
    "exactly one": "[x] = [n for n in y if n]",
    "one assignment after the other": "a = f(x)\nb = g(y)",
    "the same value twice": "a = b = f(x)",
    "walrus in a while": "while line := file.readline():\n    f(line)",
    "walrus in a comprehension": "f([m for n in x if (m := g(n))])",
    "or a default": "n = x or f()",
    "choice as a value": "n = f() if x else g()",
    "choice as an argument": "f(1 if x else 2)",
    "loop over a choice with a name": "chosen = x if y else ()\nfor n in chosen:\n    f(n)",
    "choice between two lists": "x += [1] if y else [2]",
    "choice between numbers": "x += 1 if y else 0",
    "slice": "x[a:b]",
    "a tuple returned": "def f():\n    return g(), h()",
    "a docstring": '"""a, b = f(x), g(y)"""',
}


@pytest.mark.parametrize(("code", "problem"), PACKED.values(), ids=PACKED)
def test_packed_code_is_refused_with_its_place(tmp_path: Path, capsys, code: str, problem: str):
    path = tmp_path / "packed.py"
    path.write_text(f"import sys\n\n{code}\n")
    assert style.main([str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"{path}:3: {problem}")


@pytest.mark.parametrize("code", INNOCENT.values(), ids=INNOCENT)
def test_an_innocent_neighbour_is_not(tmp_path: Path, capsys, code: str):
    path = tmp_path / "plain.py"
    path.write_text(f"{code}\n")
    assert style.main([str(path)]) == 0
    assert capsys.readouterr().out == "1 files: nothing is packed\n"


def test_every_place_of_every_file_is_told(tmp_path: Path, capsys):
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text("a, b = f(x), g(y)\nif a:\n    a or sys.exit(f(b := 1))\n")
    assert style.main([str(tmp_path / "one.py"), str(tmp_path / "two.py")]) == 1
    places = [line.split(": ")[0] for line in capsys.readouterr().out.splitlines()]
    expected = [
        f"{tmp_path / name}:{line}" for name in ("one.py", "two.py") for line in (1, 3, 3, 3)
    ]
    assert sorted(places) == sorted(expected)
