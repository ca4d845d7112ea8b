"""A lesson, parsed once: its sections, and in them files, launches, exercises and their checks.

What its cells are is said in Markdown, `notebooks/src/06_ddp.md`, by tags and marks:
`# BEGIN SOLUTION … # STUB line … # END SOLUTION` is an exercise, `# BEGIN LIVE …` one of the
workshop alone; a cell `%%writefile NAME.py` holds that program, `%%writefile ONE.py TWO.py` several
that are only imported. A built notebook is read alike.
"""

import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode
from slugify import slugify

from course import rooms, same
from course.languages import CJK, FENCED
from course.launches import Launch, launch_of

KINDS = "|".join(kind.removeprefix(".") for kind in rooms.KINDS)
# A file of a room, or a reference run of assets/, whose numbers a lesson draws.
WRITE = re.compile(rf"%%writefile (\w+\.(?:{KINDS})|[\w-]+\.json)$", re.MULTILINE)
NAMES = re.compile(r"%%writefile (?:\S+ )+\S+")  # in a source: they come in one folded cell
# The difference of two programs, and what is in it: nothing, until it is built.
DIFF = re.compile(r"^```diff *(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
# How that cell is built. Written so, each file is byte for byte what `%%writefile` makes of it.
HEAD = "%%bash -e\n# Files that this notebook uses. You can go on without reading them."
END = "END"
CAT = re.compile(rf"^cat > (\S+) <<'{END}'\n(.*?)\n{END}$", re.MULTILINE | re.DOTALL)
# A region in a program or a cell; in C++ the marks stand behind // instead of #.
SOLUTION = re.compile(
    r"^ *(?P<mark>#|//) BEGIN (?P<kind>SOLUTION|LIVE)\n"
    r"(?P<lines>.*?)"
    r"^ *(?P=mark) END (?P=kind) *(?:\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
STUB = re.compile(r"(?:#|//) STUB ?")
HERE = "▼▼▼ your code here"  # what a learner looks for in an unsolved exercise
STRAY = re.compile(r"(?:#|//) (?:(?:BEGIN|END) (?:SOLUTION|LIVE)|STUB)")
NOT_YET = "✗ not yet"  # what a check prints until its exercise is solved: see handin.py
PREDICT = "**Predict"  # how a prediction begins, in English
HEADING = re.compile(r"^(#+) (.*)", re.MULTILINE)
EXERCISE = re.compile(r"Exercise (\d+) · 練習 \1")
LONGEST = 42  # letters of a heading, so that `class-06-…-123-catch-up` has the 64 that are allowed


WORKSHOP = "workshop"  # the notebook of the class
EXAM = "exam"  # its source lies beside the lessons', and is none of them


class BuildError(Exception):
    """A source breaks the grammar; the message names the file, the place and the remedy."""


def demand(truth: object, place: str, otherwise: str) -> None:
    """Stop the build at a place in the sources, with what is wrong there, unless `truth` holds."""
    if not truth:
        raise BuildError(f"{place}: {otherwise}")


def about(notebook: dict) -> dict:
    """What the course records in a notebook: needs, GPU minutes, quick parameters, its last run."""
    return notebook["metadata"].get("course", {})


def meant_by(name: str, known: Iterable[str]) -> list[str]:
    """The notebooks, as `solutions/06_ddp`, that a learner or teacher means by a name's beginning:
    those of the same folder.
    """
    return [each for each in known if each.startswith(name) and each.count("/") == name.count("/")]


def last_run(notebook: dict) -> dict:
    """Where the outputs of a notebook come from: machine, versions, seconds of each launch."""
    return about(notebook).get("outputs", {})


def assigned(parameters: dict) -> str:
    """The lines of code that give parameters these values."""
    return "\n".join(f"{name} = {value!r}" for name, value in parameters.items())


def tags(node: dict) -> list[str]:
    return node["metadata"].get("tags", [])


def file_of(source: str) -> str:
    """The name of the one file that a code cell writes, as "ddp.py"; "" of any other cell."""
    match = WRITE.match(source)
    return match[1] if match else ""


def bundle(files: dict[str, str]) -> str:
    """One cell that writes several files."""
    parts = [f"cat > {name} <<'{END}'\n{text}\n{END}" for name, text in files.items()]
    return "\n\n".join([HEAD, *parts])


def files_of(source: str) -> dict[str, str]:
    """The files that a code cell writes, by name. In a source their texts are still empty."""
    name = file_of(source)
    if name:
        return {name: source.partition("\n")[2]}
    if source.startswith(HEAD):
        return dict(CAT.findall(source))
    return dict.fromkeys(source.split()[1:], "") if NAMES.fullmatch(source) else {}


class Opening(NamedTuple):
    """What a lesson says under its title, in Markdown."""

    sentence: str
    sentence_chinese: str
    goal: str
    goal_chinese: str


# ---- headings


class Heading(NamedTuple):
    """`## Half batches · 一半的批次`"""

    level: int
    text: str  # without the #
    at: int  # where it begins in its cell

    @property
    def english(self) -> str:
        return " ".join(part for part in self.text.split(" · ") if not CJK.search(part))

    @property
    def exercise(self) -> str:
        """The number of the exercise that it is above, as "2"; "" if of none."""
        match = EXERCISE.fullmatch(self.text)
        return match[1] if match and self.level == 3 else ""

    @property
    def slug(self) -> str:
        """Its English as `half-batches`; no number ahead."""
        english = re.sub(r"^\d+ ", "", self.english)
        return slugify(english, max_length=LONGEST, word_boundary=True)


@lru_cache(maxsize=10_000)
def headings(prose: str) -> tuple[Heading, ...]:
    """The headings of a Markdown cell, none of what looks like one in code."""
    plain = FENCED.sub(lambda match: " " * len(match[0]), prose)
    parsed = []
    for match in HEADING.finditer(plain):
        text = prose[match.start(2) : match.end(2)]
        parsed.append(Heading(len(match[1]), text, match.start()))
    return tuple(parsed)


# ---- cells, sections, lessons


class Cell:
    """One cell of a lesson or of a built notebook."""

    def __init__(self, node: NotebookNode, place: str = ""):
        self.node = node
        self.place = place  # in the sources, for messages
        self.written = node.source  # as its source has it, before anything was put in

    @property
    def source(self) -> str:
        return self.node.source

    @source.setter
    def source(self, text: str) -> None:
        self.node.source = text

    @property
    def tags(self) -> list[str]:
        return tags(self.node)

    @property
    def is_code(self) -> bool:
        return self.node.cell_type == "code"

    @property
    def headings(self) -> tuple[Heading, ...]:
        return () if self.is_code else headings(self.source)

    @property
    def file(self) -> str:
        """The name of the one file that it writes; "" of any other cell."""
        return file_of(self.source) if self.is_code else ""

    @property
    def files(self) -> dict[str, str]:
        """The files that it writes, by name."""
        return files_of(self.source) if self.is_code else {}

    @property
    def text(self) -> str:
        """What it writes into its one file."""
        return self.source.partition("\n")[2]

    @property
    def launch(self) -> Launch | None:
        """The launch that it consists of."""
        return launch_of(self.source) if self.is_code else None

    @property
    def is_check(self) -> bool:
        """Whether it judges an exercise in print."""
        judges = self.is_code and NOT_YET in self.source and "print(" in self.source
        return judges and not self.files

    @property
    def ending(self) -> str:
        """What handin.py knows a check by, as `3:1f0c9a77`: its lines below the exercise."""
        lines = self.written.rpartition("END SOLUTION\n")[2].strip().splitlines()
        text = "\n".join(lines)
        return f"{len(lines)}:{same.letters(text, 8)}"

    @property
    def regions(self) -> list[int]:
        """The lines where a learner writes, as Jupyter counts them."""
        return [number for number, text in enumerate(self.source.splitlines(), 1) if HERE in text]


class Section:
    """A heading, and the cells from there on to the next one."""

    def __init__(self, heading: Heading | None = None):
        self.heading = heading
        self.cells: list[Cell] = []

    @property
    def exercise(self) -> str:
        """The number of the exercise that it is, as "2"; "" if it is none."""
        return self.heading.exercise if self.heading else ""

    @property
    def code(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.is_code]

    @property
    def words(self) -> str:
        """All that its Markdown cells say."""
        return "".join(cell.source for cell in self.cells if not cell.is_code)


class Lesson:
    """The cells of a lesson, or of what was made of it."""

    def __init__(self, cells: Iterable[Cell]):
        self.cells = list(cells)

    @classmethod
    def of(cls, notebook: NotebookNode) -> "Lesson":
        return cls(map(Cell, notebook.cells))

    @classmethod
    def at(cls, path: Path) -> "Lesson":
        """That of a built notebook."""
        return cls.of(nbformat.read(path, as_version=4))

    @property
    def code(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.is_code]

    @property
    def own(self) -> "Lesson":
        """The lesson without the cells that only the workshop has."""
        return Lesson(cell for cell in self.cells if "class" not in cell.tags)

    @cached_property
    def sections(self) -> list[Section]:
        """Its sections in order. One without a heading comes first, if there is anything in it.

        A cell with several headings belongs to the section of its last one.
        """
        sections = [Section()]
        for cell in self.cells:
            if cell.headings:
                sections.append(Section(cell.headings[-1]))
            sections[-1].cells.append(cell)
        return sections if sections[0].cells else sections[1:]

    @property
    def files(self) -> dict[str, str]:
        """The files that it writes, by name."""
        return {name: text for cell in self.code for name, text in cell.files.items()}

    @property
    def launches(self) -> list[Launch]:
        return [cell.launch for cell in self.code if cell.launch]

    @property
    def title(self) -> str:
        """Its first title in both languages, as `06 · DDP · 分散式資料平行`; "" without one."""
        every = [heading for cell in self.cells for heading in cell.headings]
        titles = [heading.text.strip() for heading in every if heading.level == 1]
        return next((title for title in titles if " · " in title), "")

    def tagged(self, tag: str) -> list[Cell]:
        return [cell for cell in self.cells if tag in cell.tags]

    def find(self, title: str) -> tuple[Heading, Cell] | None:
        """The first heading that begins with this title, or is it, and its cell."""
        for cell in self.cells:
            for heading in cell.headings:
                if f"{heading.text} · ".startswith(f"{title} · "):
                    return heading, cell
        return None

    def checks(self, numbered: bool = True) -> list[tuple[Cell, str]]:
        """The cells that judge, each with the exercise that it judges.

        Not `numbered`, as in the workshop, every check is an exercise, in its order.
        """
        judging = []
        for section in self.sections:
            for cell in filter(lambda cell: cell.is_check, section.cells):
                exercise = section.exercise if numbered else str(len(judging) + 1)
                if exercise:
                    judging.append((cell, exercise))
        return judging


def identify(cells: list[Cell], lesson: str, place: str) -> list[str]:
    """The ids of all cells that a lesson's source has; `lesson`: its number.

    `06-half-batches-1` is the cell of that heading, `-2` the next one. No change of words moves an
    id, unless it is the heading's English; a new cell moves those that follow in its section. So
    links lead to cells with a heading only. The workshop's own cells are counted for themselves, as
    `class-06-…`: what a class needs between two cells of a lesson changes nothing in the lesson.
    """
    sections = {lesson: "", f"class-{lesson}": ""}  # where we are, for the lesson and for the class
    numbers: Counter[tuple[str, str]] = Counter()
    ids = []
    for cell in cells:
        kind = f"class-{lesson}" if "class" in cell.tags else lesson
        if cell.headings:
            heading = cell.headings[-1]
            sections[kind] = heading.slug
            known = (kind, sections[kind]) in numbers
            remedy = "another section has this heading, and ids of cells come from it: change one."
            demand(not known, place, f"“{heading.text}”: {remedy}")
        key = (kind, sections[kind])
        numbers[key] += 1
        ids.append("-".join(filter(None, [*key, str(numbers[key])])))
    return ids


# ---- exercises


def divided(lines: str) -> tuple[list[str], list[str]]:
    """The lines of a region: its solution, and its stub."""
    solution = []
    stub = []
    for line in lines.splitlines():
        if STUB.match(line.lstrip()):
            stub.append(STUB.sub("", line, count=1))
        else:
            solution.append(line)
    return solution, stub


def solve(source: str, solved: bool, place: str, live: bool = False) -> str:
    """Keep the solution, or put the stub (`# STUB …` lines of the same region) in its place.

    A region `LIVE` is an exercise of the workshop alone (`live`); the lessons have it whole.
    """

    def region(match: re.Match) -> str:
        solution, stub = divided(match["lines"])
        demand(stub, place, "a solution without a `# STUB …` line: unsolved, it must still run.")
        if solved or (match["kind"] == "LIVE" and not live):
            return "\n".join(solution) + "\n"
        indent = re.match(" *", stub[0])[0]
        size = f"{len(solution)} line{'s' * (len(solution) != 1)}"
        return "\n".join([f"{indent}{match['mark']} {HERE} ({size})", *stub]) + "\n"

    built = SOLUTION.sub(region, source).rstrip("\n")
    marks = "BEGIN SOLUTION (or LIVE), STUB and END SOLUTION (or LIVE)"
    demand(not STRAY.search(built), place, f"{marks} do not belong together here.")
    return built
