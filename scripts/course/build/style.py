"""Refuse code that packs several steps into one line, where a reader would have to unpack it first.

python -m course.build.style            # every program, tool and test
python -m course.build.style FILE …     # these

What ruff can see (line length, imports, several statements on a line) is ruff's; this is the rest.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from course import ROOT

WORK = (ast.Call, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Dict)
COMPREHENSION = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def works(node: ast.expr) -> bool:
    """Whether an expression computes something: it calls, comprehends or builds a dict."""
    return any(isinstance(part, WORK) for part in ast.walk(node))


def walruses(node: ast.AST) -> bool:
    """Whether an expression assigns by `:=`, outside of comprehensions and other calls in it."""
    if isinstance(node, ast.NamedExpr):
        return True
    if isinstance(node, (*COMPREHENSION, ast.Call)):
        return False
    return any(map(walruses, ast.iter_child_nodes(node)))


def nothing(node: ast.expr) -> bool:
    """Whether an expression is an empty list, tuple or dict."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return not node.elts
    return isinstance(node, ast.Dict) and not node.keys


def assignment(node: ast.Assign) -> str | None:
    """`a, b = f(x), g(y)`, or `a, b = (f(x) for x in both)`; not a swap, not one returned tuple."""
    target = node.targets[0]
    if not isinstance(target, (ast.Tuple, ast.List)) or len(target.elts) < 2:
        return None
    value = node.value
    if isinstance(value, (ast.Tuple, ast.List)) and any(map(works, value.elts)):
        return "two values packed into one assignment: write one assignment a line"
    if isinstance(value, COMPREHENSION):
        return "a comprehension unpacked into names: write one assignment a line"
    return None


def call(node: ast.Call) -> str | None:
    """`print(n := len(x))`."""
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    if any(map(walruses, arguments)):
        return "an assignment inside a call: assign first, then call"
    return None


def choice(node: ast.BoolOp) -> str | None:
    """`x or parser.error("…")`."""
    last = node.values[-1]
    if isinstance(node.op, ast.Or) and isinstance(last, ast.Call):
        name = ast.unparse(last.func).rpartition(".")[2]
        if name in ("error", "exit"):
            return f"`… or {name}(…)`: write an `if`"
    return None


def statement(node: ast.Expr) -> str | None:
    """`f() if x else g()`, `x and f()`, and `f(), g()`, written for what they do."""
    if isinstance(node.value, (ast.IfExp, ast.BoolOp)):
        return "an expression that decides what to do: write an `if`"
    if isinstance(node.value, ast.Tuple):
        return "two expressions in one statement: write one a line"
    return None


def loop(node: ast.For | ast.comprehension) -> str | None:
    """`for x in xs if c else ():`, as a statement or in a comprehension."""
    if isinstance(node.iter, ast.IfExp):
        return "`for … in … if … else …`: write an `if` around the loop"
    return None


def addition(node: ast.AugAssign) -> str | None:
    """`xs += [x] if c else []`."""
    value = node.value
    if isinstance(value, ast.IfExp) and (nothing(value.body) or nothing(value.orelse)):
        return "`+= … if … else []`: write an `if`"
    return None


def index(node: ast.Slice) -> str | None:
    """`xs[:: 1 if n % 2 else -1]`."""
    parts = (node.lower, node.upper, node.step)
    if any(isinstance(part, ast.IfExp) for part in parts):
        return "a decision inside an index: give it a name first"
    return None


RULES = {
    ast.Assign: assignment,
    ast.AugAssign: addition,
    ast.Call: call,
    ast.BoolOp: choice,
    ast.Expr: statement,
    ast.For: loop,
    ast.comprehension: loop,
    ast.Slice: index,
}


def problems(source: str, name: str) -> Iterator[str]:
    """A line for each packed place of a Python source, as `name:line: what to do`.

    SyntaxError for what is no Python.
    """
    for node in ast.walk(ast.parse(source, name)):
        rule = RULES.get(type(node))
        problem = rule and rule(node)
        if problem:
            line = getattr(node, "lineno", None) or node.iter.lineno
            yield f"{name}:{line}: {problem}"


def main(arguments: list[str]) -> int:
    paths = [Path(argument) for argument in arguments]
    if not paths:
        paths = sorted([*(ROOT / "scripts").rglob("*.py"), *(ROOT / "tests").rglob("*.py")])
    found = [line for path in paths for line in problems(path.read_text(), str(path))]
    print("\n".join(found) or f"{len(paths)} files: nothing is packed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
