"""Refuse code that packs several steps into one line, where a reader would have to unpack it first.

python scripts/check_style.py            # every program, tool and test
python scripts/check_style.py FILE …     # these

What ruff can see (line length, imports, several statements on a line) is ruff's; this is what it has no rule for.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = (ast.Call, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Dict)


def works(node: ast.expr) -> bool:
    """Whether an expression computes something: it calls, comprehends or builds a dict."""
    return any(isinstance(part, WORK) for part in ast.walk(node))


def packed(node: ast.AST) -> str | None:
    """What is packed in this node, and what to write instead; None for a node that is as it should be."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Tuple, ast.List)):
        value = node.value
        if isinstance(value, (ast.Tuple, ast.List)) and any(map(works, value.elts)):
            return "two values packed into one assignment: write one assignment a line"
        if isinstance(value, (ast.GeneratorExp, ast.ListComp)):
            return "a comprehension unpacked into names: write one assignment a line"
    if isinstance(node, ast.Call):
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if any(isinstance(argument, ast.NamedExpr) for argument in arguments):
            return "an assignment inside a call: assign first, then call"
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        last = node.values[-1]
        if isinstance(last, ast.Call) and isinstance(last.func, (ast.Attribute, ast.Name)):
            name = last.func.attr if isinstance(last.func, ast.Attribute) else last.func.id
            if name in ("error", "exit"):
                return f"`… or {name}(…)`: write an `if`"
    if isinstance(node, ast.For) and isinstance(node.iter, ast.IfExp):
        return "`for … in … if … else …`: write an `if` around the loop"
    if isinstance(node, ast.Expr) and isinstance(node.value, (ast.IfExp, ast.BoolOp)):
        return "an expression that decides what to do: write an `if`"
    return None


def problems(source: str, name: str) -> Iterator[str]:
    """One line for each packed place of a Python source, as `name:line: what to do`. SyntaxError for no Python."""
    for node in ast.walk(ast.parse(source, name)):
        problem = packed(node)
        if problem:
            yield f"{name}:{node.lineno}: {problem}"


def main(arguments: list[str]) -> int:
    paths = [Path(argument) for argument in arguments]
    if not paths:
        paths = sorted([*(ROOT / "scripts").rglob("*.py"), *(ROOT / "tests").rglob("*.py")])
    found = [line for path in paths for line in problems(path.read_text(), str(path))]
    print("\n".join(found) or f"{len(paths)} files: nothing is packed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
