"""The teacher's pages: the run sheet agrees with the deck and the workshop notebook, the handout fills one page."""

import json
import re
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]

from languages import check_languages

ASSETS, NOTEBOOKS = ROOT / "assets", ROOT / "notebooks"
SHEET, DECK = (ASSETS / "run-sheet.md").read_text(), (ASSETS / "deck.html").read_text()
RUN = json.loads((ASSETS / "workshop-2-cores.json").read_text())
WORKSHOP, SOLVED = (nbformat.read(NOTEBOOKS / f"{path}.ipynb", 4) for path in ("workshop", "solutions/workshop"))
ROW = re.compile(r"^\| (\d+)–(\d+) \| ([\d–]+) \| .+? \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
TABLE = [(int(begin), int(end), *cells) for begin, end, *cells in ROW.findall(SHEET)]


def launches(notebook: nbformat.NotebookNode) -> list[tuple[str, str]]:
    """Program and number of ranks of each launch, in order."""
    lines = "\n".join(cell.source for cell in notebook.cells)
    return [
        (program, ranks) for ranks, program in re.findall(r"^!torchrun .*node=(\d+).* (\w+)\.py", lines, re.MULTILINE)
    ]


def test_the_blocks_fill_ninety_minutes_and_are_those_of_the_notebook() -> None:
    begins = [begin for begin, *_ in TABLE]
    assert begins[0] == 0 and TABLE[-1][1] == 90 and all(one[1] == two[0] for one, two in pairwise(TABLE))
    headings = [int(minute) for minute in re.findall(r"^## (\d+)–\d+", SHEET, re.MULTILINE)]
    assert headings == begins
    prose = "\n".join(cell.source for cell in WORKSHOP.cells if cell.cell_type == "markdown")
    minutes = re.findall(r"^## Minute (\d+): .* · 第 (\d+) 分鐘：", prose, re.MULTILINE)
    assert [int(english) for english, _ in minutes] == [int(chinese) for _, chinese in minutes] == begins


def test_each_slide_stands_in_the_block_of_its_minute() -> None:
    minutes = [int(minute) for minute in re.findall(r'<section [^>]*data-minute="(\d+)"', DECK)]
    planned = {}
    for begin, end, slides, *_ in TABLE:
        first, _, last = slides.partition("–")
        planned |= {slide: (begin, end) for slide in range(int(first), int(last or first) + 1)}
    assert list(planned) == list(range(1, len(minutes) + 1))
    assert all(planned[slide][0] <= minute < planned[slide][1] for slide, minute in enumerate(minutes, 1))
    for block in re.split(r"^## ", SHEET, flags=re.MULTILINE)[1:]:
        if found := re.match(r"(\d+)–", block):
            begin = int(found[1])
            named = {int(n) for n in re.findall(r"[Ss]lides? (\d+)|第 (\d+) 張", block) for n in n if n}
            assert named <= {slide for slide, (start, _) in planned.items() if start == begin}, block


def test_at_most_eight_launches_and_the_sheet_names_each_with_its_measured_time() -> None:
    wanted = launches(WORKSHOP)
    assert wanted == launches(SOLVED) and len(wanted) <= 8
    assert [row["row"] for row in RUN["rows"]] == [f"{p} on {n}" for p, n in wanted] + ["launches", "other cells"]
    named = [re.sub(r"`(\w+)\.py`.*", r"\1", name) for row in TABLE if row[3] != "–" for name in row[3].split(", ")]
    assert named == [program for program, _ in wanted]
    shown = dict(re.findall(r'<span data-run="workshop-2-cores\.json#([^"]*)#seconds">(\d+)</span> s', SHEET))
    assert shown == {row["row"]: str(row["seconds"]) for row in RUN["rows"]}
    guesses = [int(guess) for row in TABLE for guess in re.findall(r"\d+", row[5])]
    assert len(guesses) == len(wanted) and max(guesses) <= 30
    assert RUN["rows"][-2]["seconds"] == sum(row["seconds"] for row in RUN["rows"][:-2]) <= 240


def test_the_stored_run_is_the_fallback_of_every_launch() -> None:
    """The solved twin has the outputs of every cell, its exercises all say ✓; the unsolved one says what is missing."""
    said = ["".join(o.get("text", "") for c in book.cells for o in c.get("outputs", [])) for book in (SOLVED, WORKSHOP)]
    assert "not yet" not in said[0] and said[0].count("✓ ") >= 4
    assert said[1].count("not yet") == 4  # five lines, and the three of DDP; `average.py` says it in a figure
    assert all(cell.outputs for cell in SOLVED.cells if cell.source.startswith("!torchrun"))


def test_at_most_three_lines_are_typed_at_a_time() -> None:
    counts = {}
    for cell in WORKSHOP.cells:
        if typed := re.findall(r"# your code here \((\d+) lines?\)", cell.source):
            counts[cell.source.split()[1]] = sum(map(int, typed))
    assert counts == {"single.py": 3, "average.py": 3, "ddp.py": 3}


@pytest.mark.parametrize("name", ["run-sheet", "day-before"])
def test_pages_speak_both_languages(name: str) -> None:
    text = (ASSETS / f"{name}.md").read_text()
    if name == "day-before":  # its boxes hold both, like a table's rows
        text = re.sub(r"^- \[ \] (.*)$", r"| \1 |", text, flags=re.MULTILINE)
    assert check_languages(text) is None


def test_links_of_the_pages_lead_somewhere() -> None:
    for name in ("run-sheet", "day-before"):
        for link in re.findall(r"\]\((?!https)([^)#]+)\)", (ASSETS / f"{name}.md").read_text()):
            assert (ASSETS / link).exists(), link
