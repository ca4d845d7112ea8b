"""The teacher's pages: the run sheet agrees with the deck, the workshop notebook and its run."""

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from course.languages import check_languages
from course.lesson import Lesson

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ROOT / "assets"
SHEET = (ASSETS / "run-sheet.md").read_text()
DAY_BEFORE = (ASSETS / "day-before.md").read_text()
DECK = (ASSETS / "deck.html").read_text()
HANDOUT = (ASSETS / "handout.html").read_text()
RUN = json.loads((ASSETS / "workshop-2-cores.json").read_text())
WORKSHOP = nbformat.read(ROOT / "notebooks" / "workshop.ipynb", as_version=4)
SOLVED = nbformat.read(ROOT / "notebooks" / "solutions" / "workshop.ipynb", as_version=4)
FIRST = WORKSHOP.cells[0].source
# A block: from and to minute, slides, programs, their measured seconds, and those of a guess.
ROW = re.compile(r"^\| (\d+)–(\d+) \| ([\d–]+) \| .+? \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
TABLE = [(int(begin), int(end), *cells) for begin, end, *cells in ROW.findall(SHEET)]


def launches(notebook: NotebookNode) -> list[tuple[str, str]]:
    """Program and number of ranks of each launch, in order."""
    return [(launch.name, launch.ranks) for launch in Lesson.of(notebook).launches]


def printed(notebook: NotebookNode) -> str:
    texts = []
    for cell in notebook.cells:
        texts += [output.get("text", "") for output in cell.get("outputs", [])]
    return "".join(texts)


def test_the_blocks_fill_ninety_minutes_and_are_those_of_the_notebook() -> None:
    begins = [begin for begin, *_ in TABLE]
    assert begins[0] == 0
    assert TABLE[-1][1] == 90
    assert all(block[1] == following[0] for block, following in pairwise(TABLE))
    headings = [int(minute) for minute in re.findall(r"^## (\d+)–\d+", SHEET, re.MULTILINE)]
    assert headings == begins
    prose = "\n".join(cell.source for cell in WORKSHOP.cells if cell.cell_type == "markdown")
    minutes = re.findall(r"^## Minute (\d+): .* · 第 (\d+) 分鐘：", prose, re.MULTILINE)
    assert [int(english) for english, _ in minutes] == begins
    assert [int(chinese) for _, chinese in minutes] == begins


def test_ten_minutes_are_slack_without_a_launch_or_a_line_to_type() -> None:
    rows = re.findall(r"^\| (\d+)–(\d+) .*$", SHEET, re.MULTILINE)
    slack = [
        row for row in TABLE if re.search(rf"^\| {row[0]}–.*slack · 空檔", SHEET, re.MULTILINE)
    ]
    assert len(rows) == len(TABLE)
    assert sum(end - begin for begin, end, *_ in slack) == 10
    assert all(row[3] == "–" for row in slack)
    minute = None
    for cell in WORKSHOP.cells:
        heading = re.match(r"## Minute (\d+)", cell.source)
        minute = int(heading[1]) if heading else minute
        if minute in [begin for begin, *_ in slack]:
            assert not cell.source.startswith(("!", "%%writefile")), cell.source[:80]
    told = re.findall(r"minutes? (\d+–\d+) and (\d+–\d+)", SHEET)
    assert told == [tuple(f"{begin}–{end}" for begin, end, *_ in slack)]


def test_each_slide_stands_in_the_block_of_its_minute() -> None:
    minutes = [int(minute) for minute in re.findall(r'<section [^>]*data-minute="(\d+)"', DECK)]
    planned = {}
    for begin, end, slides, *_ in TABLE:
        first, _, last = slides.partition("–")
        planned |= {slide: (begin, end) for slide in range(int(first), int(last or first) + 1)}
    assert list(planned) == list(range(1, len(minutes) + 1))
    for slide, minute in enumerate(minutes, 1):
        begin, end = planned[slide]
        assert begin <= minute < end, f"slide {slide}"

    for block in re.split(r"^## ", SHEET, flags=re.MULTILINE)[1:]:
        begin = re.match(r"(\d+)–", block)
        if begin:
            own = {slide for slide, (start, _) in planned.items() if start == int(begin[1])}
            named = re.findall(r"[Ss]lides? (\d+)", block)
            named += re.findall(r"第 (\d+) 張", block)
            assert {int(slide) for slide in named} <= own, block


def test_at_most_ten_launches_and_the_sheet_names_each_with_its_measured_time() -> None:
    wanted = launches(WORKSHOP)
    assert wanted == launches(SOLVED)
    assert len(wanted) <= 10
    rows = {row["row"]: row["seconds"] for row in RUN["rows"]}
    own = [f"{program} on {ranks}" for program, ranks in wanted]
    assert list(rows) == [*own, "launches", "other cells"]

    named = []
    for row in TABLE:
        if row[3] != "–":
            named += [re.sub(r"`(\w+)\.py`.*", r"\1", name) for name in row[3].split(", ")]
    assert named == [program for program, _ in wanted]
    filled = r'<span data-run="workshop-2-cores\.json#([^"]*)#seconds">(\d+)</span> s'
    assert dict(re.findall(filled, SHEET)) == {row: str(rows[row]) for row in rows}
    guesses = [int(guess) for row in TABLE for guess in re.findall(r"\d+", row[5])]
    assert len(guesses) == len(wanted)
    assert max(guesses) <= 30
    assert rows["launches"] == sum(rows[name] for name in own) <= 240


def test_the_stored_run_is_the_fallback_of_every_launch() -> None:
    """The solved twin has all outputs, and nothing but ✓; the unsolved one shows no answer."""
    assert "not yet" not in printed(SOLVED)
    assert printed(SOLVED).count("✓ ") >= 4
    assert printed(WORKSHOP) == ""
    assert all(cell.outputs for cell in SOLVED.cells if cell.source.startswith("!torchrun"))


@pytest.mark.torch
def test_the_handout_finds_a_rank_whose_torchrun_is_gone(tmp_path: Path) -> None:
    """torchrun starts `python -u ddp.py`: only the program's name is in the line of a rank."""
    from torch.distributed.run import config_from_args, parse_args

    _, python, arguments = config_from_args(parse_args(["--standalone", "orphan_of_class.py"]))
    assert [python, *arguments] == [sys.executable, "-u", "orphan_of_class.py"]
    told = re.search("<code>(pgrep -af )ddp.py</code>", HANDOUT)
    (tmp_path / "orphan_of_class.py").write_text("import time\ntime.sleep(60)\n")
    with subprocess.Popen([python, *arguments], cwd=tmp_path) as rank:
        command = [*told[1].split(), "orphan_of_class.py"]
        while not (found := subprocess.run(command, capture_output=True, text=True).stdout):
            assert rank.poll() is None
        rank.kill()
    assert found.split()[0] == str(rank.pid)
    assert "torchrun" not in found


def test_at_most_three_lines_are_typed_at_a_time() -> None:
    counts = {}
    for cell in WORKSHOP.cells:
        typed = re.findall(r"# ▼▼▼ your code here \((\d+) lines?\)", cell.source)
        if typed:
            counts[cell.source.split()[1]] = sum(map(int, typed))
    assert counts == {"single.py": 3, "average.py": 3, "ddp.py": 3}


def written(notebook: NotebookNode) -> dict[str, str]:
    """Program → its text, as a cell of the notebook writes it."""
    return Lesson.of(notebook).files


def test_who_is_late_takes_the_finished_program_with_one_line(tmp_path: Path) -> None:
    """Behind each exercise, and only when the line is made to run."""
    here = written(WORKSHOP)
    finished = written(SOLVED)
    open_ones = [name for name, text in here.items() if "your code here" in text]
    assert open_ones == ["single.py", "average.py", "ddp.py"]
    cells = [cell.source for cell in WORKSHOP.cells]
    for name in open_ones:
        place = next(
            n for n, source in enumerate(cells) if source.startswith(f"%%writefile {name}")
        )
        folded, line = WORKSHOP.cells[place + 1 : place + 3]
        assert folded.metadata.jupyter.source_hidden
        assert folded.metadata["_kg_hide-input"]
        assert folded.source == f"%%writefile finished_{name}\n{finished[name]}"
        told, command = line.source.splitlines()
        assert told.startswith("# Behind?") and command.startswith("# !cp ")
        assert cells[place + 3].startswith("!torchrun") and f" {name}" in cells[place + 3]
        (tmp_path / name).write_text(here[name])
        (tmp_path / f"finished_{name}").write_text(finished[name])
        subprocess.run(command.removeprefix("# !"), shell=True, cwd=tmp_path, check=True)
        assert (tmp_path / name).read_text() == finished[name]
    assert not any("Behind?" in cell.source for cell in SOLVED.cells if cell.cell_type == "code")


def test_the_first_cell_leads_to_the_solved_twin_from_wherever_it_was_opened() -> None:
    links = re.findall(r"\]\(([^)]*solutions/workshop\.ipynb)\)", FIRST)
    *elsewhere, beside, in_chinese = links
    assert in_chinese == beside
    assert (ROOT / "notebooks" / beside).exists()
    for link in elsewhere:  # only where the course has a repository
        assert re.fullmatch("https://github.com/.*/notebooks/solutions/workshop.ipynb", link)


def facts(text: str) -> tuple[list[str], list[str]]:
    """The code and measured numbers in a text, and its other numbers."""
    code = re.findall(r'`[^`]+`|data-run="[^"]*"', text)
    rest = re.sub(r"`[^`]+`|<span.*?</span>|\([^ )]*\)", "", text)
    return sorted(code), sorted(re.findall(r"(?<![\w.])\d+", rest))


def test_both_languages_state_the_same_conditions() -> None:
    blocks = re.split(r"\n\s*\n", SHEET.strip())
    blocks = [block for block in blocks if not block.startswith(("#", "|"))]
    pairs = list(zip(blocks[::2], blocks[1::2], strict=True))
    assert len(pairs) >= SHEET.count("\n## ")
    boxes = re.findall(r"^- \[ \] (.+?) · (.+)$", DAY_BEFORE, re.MULTILINE)
    assert len(boxes) == DAY_BEFORE.count("- [ ]") == 9
    for english, chinese in [*pairs, *boxes]:
        assert facts(english) == facts(chinese), english


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
