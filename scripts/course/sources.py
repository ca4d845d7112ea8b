"""The sources of a course: its programs, and its lessons as cells with programs put in."""

import ast
import difflib
import re
import tomllib
from collections.abc import Iterator
from copy import copy
from pathlib import Path

import jupytext
from nbformat import NotebookNode

from course import listed, rooms
from course.filled import with_numbers
from course.languages import check_languages
from course.lesson import (
    DIFF,
    END,
    EXAM,
    WORKSHOP,
    BuildError,
    Cell,
    Lesson,
    Opening,
    bundle,
    demand,
    files_of,
    identify,
    solve,
    tags,
)

CELL_LINES = 12
CONVERT = "<!-- convert -->"  # where a lesson asks for the table of assets/convert.md
HUNK = re.compile(r"@@ -(\d+)(\S*) \+(\d+)(\S*) @@$")
LINE = re.compile(r"<!-- (\w+\.py)#(.+?) -->`[^`]*`")
HIDDEN = {"jupyter": {"source_hidden": True}, "_kg_hide-input": True, "cellView": "form"}


def difference(texts: list[str], names: list[str]) -> Iterator[str]:
    """The lines of the diff of two programs, without their docstrings: the change is in the code.

    The line numbers are those of the whole programs.
    """
    starts = [code_begins(*pair) for pair in zip(texts, names, strict=True)]
    codes = [text.splitlines()[start:] for text, start in zip(texts, starts, strict=True)]
    for line in difflib.unified_diff(*codes, *names, n=1, lineterm=""):
        hunk = HUNK.match(line)
        if hunk:
            first = int(hunk[1]) + starts[0]
            second = int(hunk[3]) + starts[1]
            line = f"@@ -{first}{hunk[2]} +{second}{hunk[4]} @@"
        yield line


def code_begins(text: str, name: str) -> int:
    """How many lines the docstring of a program takes; 0 if it does not begin with one."""
    if not name.endswith(".py"):
        return 0
    tree = ast.parse(text, name)
    return tree.body[0].end_lineno if ast.get_docstring(tree) is not None else 0


class Course:
    """One repository: the sources of its lessons, and its programs by file name."""

    def __init__(self, root: Path):
        self.root = root
        self.notebooks = root / "notebooks"
        self.workshop = self.notebooks / f"{WORKSHOP}.ipynb"
        self.lessons = root / "scripts" / "lessons"
        found = sorted((self.notebooks / "src").glob("*.md"))
        paths = [path for path in found if path.stem != EXAM]
        self.sources = {path: jupytext.read(path, fmt="md:markdown") for path in paths}
        self.programs = {path.name: path for path in rooms.files(self.lessons)}
        self.runs = {path.name: path for path in (root / "assets").glob("*.json")}
        self.listed = listed.load(root)  # where the notebooks open elsewhere
        # What machines with GPUs showed, by file and lesson; the build looks what still holds.
        self.measured: dict[str, dict[str, dict]] = {}

    def name(self, path: Path) -> str:
        return str(path.relative_to(self.root))

    def asset(self, name: str) -> dict:
        """What a file of TOML in assets/ says; nothing without it."""
        path = self.root / "assets" / name
        try:
            return tomllib.loads(path.read_text()) if path.exists() else {}
        except (OSError, tomllib.TOMLDecodeError) as error:
            problem = f"not the TOML that it should be ({error}): correct it there."
            raise BuildError(f"{self.name(path)}: {problem}") from None

    def titles(self) -> Iterator[tuple[str, str, str]]:
        """Number, English and Chinese title of each lesson."""
        for path, source in self.sources.items():
            title = re.match(r"(\d+) · (.+?) · (.+)", Lesson.of(source).title)
            place = self.name(path)
            demand(title, place, "begin with `# 03 · Title · 標題`.")
            number = path.stem[:2]
            demand(title[1] == number, place, f"the heading says {title[1]}, the file {number}.")
            yield title.groups()

    def opening(self, path: Path) -> Opening:
        """The first four paragraphs of a lesson: its sentence, and what one can do afterwards."""
        source = self.sources[path].cells[0].source
        blocks = [" ".join(block.split()) for block in re.split(r"\n\s*\n", source)]
        goals = blocks[3:5]
        begins = len(goals) == 2 and goals[0].startswith("Afterwards")
        remedy = "its first cell has a title, a sentence in each language, "
        remedy += "“Afterwards …” and “學完之後…”."
        demand(begins and goals[1].startswith("學完之後"), self.name(path), remedy)
        return Opening(*blocks[1:5])

    def program(self, name: str, solved: bool, place: str, live: bool = False) -> str:
        """The text of the program `name`, as `ddp.py`, that `place` in the sources asks for."""
        if name in self.runs:  # numbers that were kept, as `speedrun-2-cores.json`
            return self.runs[name].read_text().rstrip("\n")
        demand(name in self.programs, place, f"no room in {self.name(self.lessons)} holds {name}.")
        path = self.programs[name]
        return solve(path.read_text(), solved, self.name(path), live)

    def with_lines(self, text: str, place: str) -> str:
        """A text with lines of programs filled in: `<!-- first.py#set_epoch -->`, code behind it,
        is the one line of first.py with this piece, without its comment and what it returns.
        """

        def fill(match: re.Match) -> str:
            lines = self.program(match[1], True, place).splitlines()
            those = [line for line in lines if match[2] in line]
            remedy = f"{match[1]} has {len(those)} lines with {match[2]}: name a piece of one line."
            demand(len(those) == 1, place, remedy)
            code = those[0].partition("  # ")[0].strip().removeprefix("Run:").lstrip()
            if code.startswith("def "):
                code = code.partition(" ->")[0]
            return f"<!-- {match[1]}#{match[2]} -->`{code}`"

        return LINE.sub(fill, text)

    def conversions(self, place: str) -> str:
        """The table of assets/convert.md: a script for one GPU, and what becomes of its lines."""
        path = self.root / "assets" / "convert.md"
        text = self.with_lines(path.read_text(), self.name(path))
        rows = [line for line in text.splitlines() if line.startswith("|")]
        demand(rows, place, f"{self.name(path)} has no table.")
        return re.sub("<!-- .*? -->", "", "\n".join(rows))

    def lesson(self, path: Path, solved: bool) -> Lesson:
        """One lesson, with the cells tagged `class`, which stand in the workshop alone."""
        all_cells = self.sources[path].cells
        ids = identify(Lesson.of(self.sources[path]).cells, path.stem[:2], self.name(path))
        cells = []
        for number, written in enumerate(all_cells, 1):
            place = f"{self.name(path)}, cell {number}"
            labels = tags(written)
            if "solution" in labels and not solved:
                continue
            node = copy(written)
            node.id = ids[number - 1]
            metadata = {"tags": labels} if labels else {}
            node.metadata = NotebookNode(metadata | (HIDDEN if "fold" in labels else {}))
            cell = Cell(node, place)
            built = self.code if cell.is_code else self.prose
            cell.source = built(cell.source, solved, place)
            cells.append(cell)
        return Lesson(cells)

    def prose(self, text: str, solved: bool, place: str) -> str:
        """A Markdown cell in both languages, with its differences and numbers filled in."""

        def fill(match: re.Match) -> str:
            pair = match[1].split()
            remedy = "a diff names two programs, OLD.py NEW.py, and holds nothing."
            demand(len(pair) == 2 and not match[2], place, remedy)
            texts = [self.program(name, solved, place) for name in pair]
            return "\n".join(["```diff", *difference(texts, pair), "```"])

        problem = check_languages(text)
        demand(not problem, place, problem)
        if CONVERT in text:
            text = text.replace(CONVERT, self.conversions(place))
        if solved:
            text = text.replace("](solutions/", "](")  # the solved twins are in that folder
            text = text.replace("](../assets/", "](../../assets/")
        return with_numbers(self.root, DIFF.sub(fill, text), place)

    def code(self, text: str, solved: bool, place: str) -> str:
        """A code cell; one that begins with `%%writefile` gets its program."""
        if text.startswith("%%writefile"):
            names = list(files_of(text)) if "\n" not in text else []
            kinds = f"NAME{', '.join(rooms.KINDS)}"
            remedy = (
                f"`%%writefile {kinds}` and nothing else: what it writes is in scripts/lessons."
            )
            demand(names, place, remedy)
            texts = {name: self.program(name, solved, place) for name in names}
            if len(texts) == 1:
                return f"{text}\n{texts[names[0]]}"
            for name, content in texts.items():
                remedy = f"{name} has a line {END}, which ends a file in this cell: change it."
                demand(END not in content.splitlines(), place, remedy)
            return bundle(texts)
        built = solve(text, solved, place)
        lines = len(built.splitlines())
        remedy = f"a cell has {CELL_LINES} lines at most, or it is a program."
        demand(lines <= CELL_LINES, place, remedy)
        return built
