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

COMPREHENSION = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
WORK = ast.Call | ast.Dict | COMPREHENSION


def works(node: ast.expr) -> bool:
    """Whether an expression computes something: it calls, comprehends or builds a dict."""
    return any(isinstance(part, WORK) for part in ast.walk(node))


def assigns(node: ast.AST) -> bool:
    """Whether an expression assigns by `:=`, outside of comprehensions and other calls in it."""
    if isinstance(node, ast.NamedExpr | ast.Call | COMPREHENSION):
        return isinstance(node, ast.NamedExpr)
    return any(map(assigns, ast.iter_child_nodes(node)))


def is_empty(node: ast.expr) -> bool:
    return ast.unparse(node) in ("[]", "()", "{}")


def remedy(node: ast.AST) -> str:
    """What to write instead of this; "" of what packs nothing."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=[_, _, *_]) | ast.List(elts=[_, _, *_]), *_]):
            several = isinstance(node.value, ast.Tuple | ast.List)
            if several and any(map(works, node.value.elts)):
                return "two values packed into one assignment: write one assignment a line"
            if isinstance(node.value, COMPREHENSION):
                return "a comprehension unpacked into names: write one assignment a line"
        case ast.Call() if any(map(assigns, ast.iter_child_nodes(node))):
            return "an assignment inside a call: assign first, then call"
        case ast.BoolOp(op=ast.Or(), values=[*_, ast.Call(func=function)]):
            name = ast.unparse(function).rpartition(".")[2]
            if name in ("error", "exit"):
                return f"`… or {name}(…)`: write an `if`"
        case ast.Expr(value=ast.IfExp() | ast.BoolOp()):
            return "an expression that decides what to do: write an `if`"
        case ast.Expr(value=ast.Tuple()):
            return "two expressions in one statement: write one a line"
        case ast.For(iter=ast.IfExp()) | ast.comprehension(iter=ast.IfExp()):
            return "`for … in … if … else …`: write an `if` around the loop"
        case ast.AugAssign(value=ast.IfExp(body=body, orelse=other)):
            if is_empty(body) or is_empty(other):
                return "`+= … if … else []`: write an `if`"
        case ast.Slice() if any(isinstance(e, ast.IfExp) for e in ast.iter_child_nodes(node)):
            return "a decision inside an index: give it a name first"
    return ""


def problems(source: str, name: str) -> Iterator[str]:
    """A line for each packed place of a Python source, as `name:line: what to do`.

    SyntaxError for what is no Python.
    """
    for node in ast.walk(ast.parse(source, name)):
        instead = remedy(node)
        if instead:
            line = getattr(node, "lineno", None) or node.iter.lineno
            yield f"{name}:{line}: {instead}"


def main(arguments: list[str]) -> int:
    paths = [Path(argument) for argument in arguments]
    if not paths:
        paths = sorted([*(ROOT / "scripts").rglob("*.py"), *(ROOT / "tests").rglob("*.py")])
    found = [line for path in paths for line in problems(path.read_text(), str(path))]
    print("\n".join(found) or f"{len(paths)} files: nothing is packed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
