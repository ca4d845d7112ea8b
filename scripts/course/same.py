"""What counts as unchanged: what runs. Not comments, not docstrings, not empty lines.

Outputs stay in a notebook, mutants count as noticed, and what was green is not run again, while all
that it was made of is the same by this module. Only text is compared, so every Python agrees.
"""

import ast
import hashlib
import io
import json
import tokenize
from pathlib import Path

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# How a line begins that IPython reads and Python does not; such a cell is compared as it is.
MAGIC = ("%", "!", "?")


def letters(content: str | bytes, count: int = 64) -> str:
    """The first letters of a content's SHA-256; 64 are all."""
    data = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(data).hexdigest()[:count]


def digest(*things: object) -> str:
    """A short hash of texts, numbers, lists and dicts; a dict's order does not count."""
    return letters(json.dumps(things, sort_keys=True, ensure_ascii=False), 16)


def cut(lines: list[bytes], node: ast.stmt) -> None:
    """Take a statement out of the lines, which stay where they are."""
    head = lines[node.lineno - 1][: node.col_offset]
    tail = lines[node.end_lineno - 1][node.end_col_offset :]
    for number in range(node.lineno - 1, node.end_lineno):
        lines[number] = b""
    lines[node.lineno - 1] = head + tail


def documented(tree: ast.AST) -> list[ast.AST]:
    """The program, classes and functions that begin with a docstring."""
    kinds = [node for node in ast.walk(tree) if isinstance(node, DOCUMENTED)]
    return [node for node in kinds if ast.get_docstring(node, clean=False) is not None]


def inside_strings(tree: ast.AST) -> set[int]:
    """The numbers of lines that begin within a string: an empty one is part of it."""
    texts = [node for node in ast.walk(tree) if isinstance(node, (ast.Constant, ast.JoinedStr))]
    return {number for node in texts for number in range(node.lineno + 1, node.end_lineno + 1)}


def statements(text: str, docstrings: bool = True) -> list[str | None]:
    """The lines of a Python program without comments and docstrings; None where nothing is left.

    What is no Python comes back as it is.
    """
    try:
        tree = ast.parse(text)
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, tokenize.TokenError):  # a program that a lesson breaks on purpose
        return text.split("\n")
    rows = text.split("\n")
    for token in tokens:
        if token.type == tokenize.COMMENT:
            row, column = token.start
            rows[row - 1] = rows[row - 1][:column].rstrip()
    lines = [row.encode() for row in rows]  # ast counts bytes
    if docstrings:
        for node in documented(tree):
            cut(lines, node.body.pop(0))
    within = inside_strings(tree)
    left = [line.decode() for line in lines]
    return [row if row.strip() or n in within else None for n, row in enumerate(left, 1)]


def code(text: str) -> str:
    """What of a Python program decides what it computes."""
    return "\n".join(row for row in statements(text) if row is not None)


def placed(text: str, docstrings: bool = True) -> str:
    """The same with each statement on the line where it was: tracebacks show it."""
    return "\n".join(row or "" for row in statements(text, docstrings))


def cell(source: str) -> str:
    """What of a notebook's cell decides what it prints.

    A text at its beginning is no docstring here, but may be shown; a traceback shows lines.
    """
    if any(line.lstrip().startswith(MAGIC) or "= !" in line for line in source.splitlines()):
        return source
    return placed(source, docstrings=False)


def file(path: Path) -> list[str]:
    """The name and the contents of a file; of a Python program what runs."""
    if path.suffix == ".py":
        return [path.name, code(path.read_text())]
    return [path.name, letters(path.read_bytes())]
