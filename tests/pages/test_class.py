"""The teacher's pages: the run sheet agrees with the deck, the workshop notebook and its run."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest
from nbformat import NotebookNode

from course.languages import check_languages
from course.lesson import HERE, Lesson, headings

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


class Block(NamedTuple):
    """A row of the run sheet's table."""

    begin: int  # minute
    end: int
    slides: list[int]
    slack: bool
    programs: list[str]
    measured: list[str]  # the rows of the stored run that it shows
    guesses: list[int]  # seconds on two T4


def numbers(cell: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", cell)]


def block(row: str) -> Block:
    minutes, slides, content, programs, measured, guesses = row.strip("| ").split(" | ")
    first, *last = numbers(slides)
    return Block(
        *numbers(minutes),
        slides=list(range(first, (last or [first])[0] + 1)),
        slack="**slack · 空檔**" in content,
        programs=re.findall(r"`(\w+)\.py`", programs),
        measured=re.findall(r"#(.*?)#seconds", measured),
        guesses=[int(seconds) for seconds in re.findall(r'data-else="(\d+)"', guesses)],
    )


BLOCKS = [block(line) for line in SHEET.splitlines() if re.match(r"\| \d", line)]
BEGINS = [block.begin for block in BLOCKS]


def launches(notebook: NotebookNode) -> list[tuple[str, str]]:
    """Program and number of ranks of each launch, in order."""
    return [(launch.name, launch.ranks) for launch in Lesson.of(notebook).launches]


def printed(notebook: NotebookNode) -> str:
    texts = []
    for cell in notebook.cells:
        texts += [output.get("text", "") for output in cell.get("outputs", [])]
    return "".join(texts)


def test_the_blocks_fill_ninety_minutes_and_are_those_of_the_notebook() -> None:
    assert BEGINS[0] == 0
    assert [block.end for block in BLOCKS] == [*BEGINS[1:], 90]
    found = [heading.text for heading in headings(SHEET) if heading.text[0].isdigit()]
    assert [numbers(text)[:2] for text in found] == [[block.begin, block.end] for block in BLOCKS]
    found = [heading.text for cell in Lesson.of(WORKSHOP).cells for heading in cell.headings]
    minutes = [numbers(text) for text in found if text.startswith("Minute ")]
    assert [both[:2] for both in minutes] == [[begin, begin] for begin in BEGINS]


def test_ten_minutes_are_slack_without_a_launch_or_a_line_to_type() -> None:
    slack = [block for block in BLOCKS if block.slack]
    assert sum(block.end - block.begin for block in slack) == 10
    assert not any(block.programs for block in slack)
    minute = None
    for section in Lesson.of(WORKSHOP).sections:
        if section.heading.text.startswith("Minute "):
            minute = numbers(section.heading.text)[0]
        if minute in [block.begin for block in slack]:
            assert not any(cell.launch or cell.files for cell in section.code)
    told = re.findall(r"minutes? (\d+–\d+) and (\d+–\d+)", SHEET)
    assert told == [tuple(f"{block.begin}–{block.end}" for block in slack)]


def test_each_slide_stands_in_the_block_of_its_minute() -> None:
    minutes = [int(minute) for minute in re.findall(r'<section [^>]*data-minute="(\d+)"', DECK)]
    assert [n for block in BLOCKS for n in block.slides] == list(range(1, len(minutes) + 1))
    _, *parts = re.split(r"^## (?=\d)", SHEET, flags=re.MULTILINE)
    for block, part in zip(BLOCKS, parts, strict=True):
        for slide in block.slides:
            assert block.begin <= minutes[slide - 1] < block.end, f"slide {slide}"
        part = part.partition("\n## ")[0]
        named = re.findall(r"[Ss]lides? (\d+)|第 (\d+) 張", part)
        assert {int(english or chinese) for english, chinese in named} <= {*block.slides}, part


def test_at_most_ten_launches_and_the_sheet_names_each_with_its_measured_time() -> None:
    wanted = launches(WORKSHOP)
    assert wanted == launches(SOLVED)
    assert len(wanted) <= 10
    own = [f"{program} on {ranks}" for program, ranks in wanted]
    rows = {row["row"]: row["seconds"] for row in RUN["rows"]}
    assert list(rows) == [*own, "launches", "other cells"]
    assert [name for block in BLOCKS for name in block.programs] == [name for name, _ in wanted]
    assert [row for block in BLOCKS for row in block.measured] == own
    assert all(len(block.guesses) == len(block.programs) for block in BLOCKS)
    assert max(guess for block in BLOCKS for guess in block.guesses) <= 30
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


def test_who_is_late_takes_the_finished_program_with_one_line(tmp_path: Path) -> None:
    """Behind each exercise, and only when the line is made to run."""
    here = Lesson.of(WORKSHOP).files
    finished = Lesson.of(SOLVED).files
    open_ones = [name for name, text in here.items() if HERE in text]
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


def told(text: str) -> bool:
    """Whether the run sheet has a row for a text that the notebook prints."""
    rows = re.findall(r"^\| `([^`]+)` \|", SHEET, re.MULTILINE)
    return any(row.removesuffix(" …") == text.strip().removesuffix(":") for row in rows)


def test_the_run_sheet_says_in_chinese_what_each_check_prints() -> None:
    """A check's texts are whole strings in its cell; three follow `✗ not yet:` as another."""
    said = [f"✗ not yet: {name}" for name in ("sampler", "wrapper", "set_epoch")]
    for cell in Lesson.of(WORKSHOP).code:
        if cell.files or cell.source.startswith(("!", "#")):
            continue
        for node in ast.walk(ast.parse(cell.source)):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and text.startswith("✗ not yet:") and text[10:].strip():
                said.append(text)
        if "def missing" in cell.source:
            tree = ast.parse(cell.source)
            returned = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return)]
            parts = [part for each in returned for part in ast.walk(each)]
            texts = [part.value for part in parts if isinstance(part, ast.Constant)]
            said += [f"✗ not yet: {text}" for text in texts if text]
    assert len(said) > 8
    assert [text for text in said if not told(text)] == []


@pytest.mark.torch
def test_the_run_sheet_has_every_remedy_of_the_doctor_in_chinese() -> None:
    import doctor

    nothing = dict.fromkeys(("torch", "python"), "2.0") | dict.fromkeys(
        ("torchvision", "triton", "nccl"), "none"
    )
    nothing |= {"cores": 1, "memory": 1, "disk": 0, "pictures": "", "online": False, "kaggle": "no"}
    remedies = set()
    for gpus in range(3):
        for driver in (False, True):
            facts = {"gpus": ["a GPU"] * gpus, "adds": [False] * gpus, "driver": driver}
            remedies |= {row.remedy for row in doctor.judge(nothing | facts) if not row.fine}
    assert len(remedies) == 11
    assert [remedy for remedy in remedies if not told(remedy)] == []


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
