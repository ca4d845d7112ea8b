"""The tables of error texts: real messages of other people find their row, other lines find none.

The texts are in errors.toml. A row fits a text if a piece in backticks of its first column occurs
in it, in capitals or not: that is what a search in a browser finds. Of several the longest counts,
those with ↑ last, as the build writes above the tables.
"""

import ast
import re
import tomllib
from pathlib import Path
from typing import NamedTuple

import jupytext
import pytest

from course.lesson import headings, tags

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ROOT / "assets"
TEXTS = tomllib.loads(Path(__file__).with_name("errors.toml").read_text())
INDEXED = {}  # lessons that have a cell tagged `index` → their cells
for path in sorted((ROOT / "notebooks" / "src").glob("*.md")):
    cells = jupytext.read(path, fmt="md:markdown").cells
    if any("index" in tags(cell) for cell in cells):
        INDEXED[path.stem] = cells


class Row(NamedTuple):
    pieces: list[str]
    cells: list[str]  # of the three columns

    @property
    def text(self) -> str:
        return " | ".join(self.cells)


def rows(name: str) -> list[Row]:
    found = []
    for line in (ASSETS / name).read_text().splitlines()[2:]:
        cells = line.strip("| ").split(" | ")
        assert len(cells) == 3, line
        found.append(Row(re.findall("`(.+?)`", cells[0]), cells))
    return found


ROWS = rows("errors.md") + rows("errors-quoted.md")


def fitting(text: str) -> list[str]:
    """The pieces of the table that occur in a text, as a reader meets them."""
    found = []
    for row in ROWS:
        for piece in row.pieces:
            if piece.lower() in text.lower():
                found.append(("↑" in row.text, -len(piece), piece))
    return [piece for _, _, piece in sorted(found)]


def row_of(piece: str) -> Row:
    return next(row for row in ROWS if piece in row.pieces)


def test_no_text_has_gone() -> None:
    assert len(TEXTS["text"]) == 42
    assert len(TEXTS["unrelated"][0]["lines"]) == 25  # one device too many has a row by now


@pytest.mark.parametrize("text", TEXTS["text"], ids=lambda text: text["finds"])
def test_a_real_text_finds_its_own_row_first(text: dict) -> None:
    found = fitting(text["text"])
    assert found, f"nothing in the tables for: {text['text']}"
    wanted = [piece for row in ROWS for piece in row.pieces if text["finds"] in piece]
    assert wanted, f"no row has {text['finds']}"
    same_remedy = {row_of(piece).cells[2] for piece in wanted}
    assert row_of(found[0]).cells[2] in same_remedy, found


@pytest.mark.parametrize("line", TEXTS["unrelated"][0]["lines"])
def test_a_line_that_has_nothing_to_do_with_it_finds_none(line: str) -> None:
    assert fitting(line) == []


def test_pieces_are_whole_words_and_occur_once() -> None:
    pieces = [piece.lower() for row in ROWS for piece in row.pieces]
    assert len(pieces) == len(set(pieces))
    for row in ROWS:
        assert row.pieces, row.text
        assert all(len(piece) > 6 for piece in row.pieces), row.text


def test_every_remedy_is_in_both_languages() -> None:
    for row in rows("errors.md"):
        english, _, chinese = row.cells[2].partition(" · ")
        assert re.search("[a-z]{3}", english), row.text
        assert re.search("[一-鿿]", chinese), row.text
    for row in rows("errors-quoted.md"):
        english, _, chinese = row.cells[1].partition(" · ")
        assert re.search("[a-z]{3}", english), row.text
        assert re.search("[一-鿿]", chinese), row.text
        assert re.search(r"\]\(https://github\.com/[^/]+/[^/]+/(issues|pull)/\d+\)", row.cells[2])


def meets(lesson: str) -> list[tuple[list[str | None], bool]]:
    """The arguments of each `meet(…)` of a lesson, and whether it always happens.

    Names that hold a text count as that text; None for what is no text.
    """
    found = []
    texts: dict[str, str] = {}

    def text(node: ast.expr) -> str | None:
        if isinstance(node, ast.Name):
            return texts.get(node.id)
        value = getattr(node, "value", None)
        return value if isinstance(value, str) else None

    for cell in INDEXED[lesson]:
        if cell.cell_type != "code" or cell.source[0] in "%!":
            continue
        for statement in ast.parse(cell.source).body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                texts[statement.targets[0].id] = text(statement.value)
            for node in ast.walk(statement):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "meet":
                    always = not isinstance(statement, ast.If)
                    found.append(([text(argument) for argument in node.args], always))
    return found


@pytest.mark.parametrize("lesson", INDEXED)
def test_a_lesson_meets_what_the_table_says_of_it(lesson: str) -> None:
    """Section, remedy and all: after a change of words `make outputs` brings the new ones."""
    own = [row for row in rows("errors.md") if f"]({lesson}.ipynb)" in row.cells[1]]
    there = {tuple(row.pieces): row for row in own}
    met = {(piece,): (section, always) for (piece, _, section, _), always in meets(lesson)}
    assert there.keys() <= met.keys()
    for piece, (section, always) in met.items():
        if always:
            assert piece in there
            assert f"[{section}](" in there[piece].cells[1]
    remedies = {(piece,): remedy for (piece, _, _, remedy), _ in meets(lesson)}
    for piece, row in there.items():
        assert remedies[piece] in (None, row.cells[2])


@pytest.mark.parametrize("lesson", INDEXED)
def test_every_entry_names_a_section_of_its_lesson(lesson: str) -> None:
    prose = "\n\n".join(cell.source for cell in INDEXED[lesson] if cell.cell_type == "markdown")
    titles = {heading.text.partition(" · ")[0] for heading in headings(prose)}
    for (piece, _, section, remedy), _ in meets(lesson):
        assert section in titles, piece
        assert remedy is None or not set("|`\n") & set(remedy), piece
        assert not set("|`\n") & set(piece), piece
