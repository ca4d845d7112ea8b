"""One exam: what students get, and the teacher's key, of notebooks/src/exam.md.

Its grammar is that of lessons, with two things more. `{{ log.first }}` is a word that was drawn. A
program stands in its cell; a line `# FAULT name: line` in it may take the place of the line above.
"""

import ast
import re
import secrets
from pathlib import Path
from random import Random

import jupytext
from jinja2 import Environment, StrictUndefined
from nbformat import NotebookNode

from course.exam.draw import everything
from course.lesson import EXAM, SOLUTION, BuildError, Lesson, demand, file_of, solve
from course.outputs import fingerprint, notebook, seal
from course.sources import Course

SECRET = "exam-secret"  # the teacher's file, in the root of the repository; git ignores it
PLANTED = 6  # faults
FAULT = re.compile(r"^( *)# FAULT (\w+): (.*)\n", re.MULTILINE)
TASK = re.compile(r"Task (\d) · 第 \1 題 · (\d) × (\d)")
FORMAT = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def number(seed: str) -> int:
    """A seed as it was typed."""
    remedy = "a seed is a whole number, as in `make exam SEED=1234`."
    demand(seed.isdecimal(), f"SEED={seed}", remedy)
    return int(seed)


def secret(root: Path) -> str:
    """The teacher's secret, without which no exam can be drawn again."""
    path = root / SECRET
    remedy = "without the file with which the exam was made it cannot be graded: put it there."
    demand(path.is_file(), str(path), remedy)
    text = path.read_text().strip()
    demand(
        text, str(path), "it is empty: put the secret back, or delete the file to get a new one."
    )
    return text


def make_secret(root: Path) -> bool:
    """Make the secret if there is none; whether it was made."""
    path = root / SECRET
    if path.exists():
        return False
    path.touch(mode=0o600)
    path.write_text(secrets.token_hex(16) + "\n")
    return True


def planted(text: str, random: Random) -> tuple[str, list[str]]:
    """A program that has faults, as a region with six of them in its stub; their names."""
    names = [match[2] for match in FAULT.finditer(text)]
    if not names:
        return text, []
    chosen = random.sample(names, PLANTED)
    right: list[str] = []
    wrong: list[str] = []
    for line in text.splitlines(keepends=True):
        fault = FAULT.fullmatch(line)
        if not fault:
            right.append(line)
            wrong.append(line)
        elif fault[2] in chosen:
            # It may be longer by an indentation, which then is the fault.
            indent = re.match(" *", right[-1])[0]
            wrong[-1] = f"{indent}{fault[3]}\n"
    head, *body, end = right
    stub = [f"# STUB {line}" for line in wrong[1:-1]]
    return "".join([head, *body, *stub, end]), chosen


class Exam(Course):
    """The source of one exam, drawn; a course of one lesson whose programs stand in it."""

    def __init__(self, root: Path, seed: int, secret: str):
        self.root = root
        self.notebooks = root / "notebooks"
        self.seed = seed
        self.runs = {}
        self.path = self.notebooks / "src" / f"{EXAM}.md"
        random = Random(f"{seed} {secret}")
        self.words = everything(random)
        text = FORMAT.from_string(self.path.read_text()).render(self.words)
        source = jupytext.reads(text, fmt="md:markdown")
        self.texts: dict[str, str] = {}
        self.faults: list[str] = []
        for cell in source.cells:
            head, _, program = cell.source.partition("\n")
            name = file_of(cell.source)
            if name:
                self.texts[name], chosen = planted(f"{program}\n", random)
                self.faults += chosen
                cell.source = head
        self.sources = {self.path: source}
        unsolved = self.lesson(self.path, solved=False)
        letters = fingerprint([cell.node for cell in unsolved.cells])[:4]
        # Tells it from exams of other seeds, other secrets and other versions of the course.
        self.mark = f"{seed}-{letters}"
        source.cells[0].source = source.cells[0].source.replace("NAME", self.mark)

    def program(self, name: str, solved: bool, place: str, live: bool = False) -> str:
        return solve(self.texts[name], solved, place, live).rstrip("\n")

    def book(self, solved: bool) -> NotebookNode:
        """What students get; solved, the teacher's key."""
        generated_from = f"{self.name(self.path)}, {self.mark}"
        made = notebook(self.lesson(self.path, solved), generated_from, {})
        seal(made)
        return made

    @property
    def stubs(self) -> list[list[str]]:
        """The lines that stand for a solution in what students get."""
        texts = [*self.texts.values(), *(cell.source for cell in self.sources[self.path].cells)]
        regions = [match[0] for text in texts for match in SOLUTION.finditer(text)]
        return [solve(region, False, EXAM).splitlines() for region in regions]

    @property
    def sizes(self) -> dict[str, object]:
        """What course/grade/ranks.py has to know of the programs; students can read it, too."""
        convert = self.words["convert"]
        told: dict[str, object] = {name: convert[name] for name in ("rows", "batch", "epochs")}
        saves = convert.epochs if convert.every else 1
        return told | {"saves": saves, "optimizer": self.words["resume"].optimizer}

    @property
    def points(self) -> dict[str, dict[str, int]]:
        """What each task asks for, by number: the names of its answers, with the points of each."""
        tasks = {}
        for section in Lesson.of(self.sources[self.path]).sections:
            task = TASK.fullmatch(section.heading.text)
            if task:
                names = self.asked(section.code[0].source)
                remedy = f"its heading says {task[2]} answers, and it asks for {len(names)}."
                demand(
                    len(names) == int(task[2]), f"{self.name(self.path)}, task {task[1]}", remedy
                )
                tasks[task[1]] = dict.fromkeys(names, int(task[3]))
        return tasks

    def asked(self, cell: str) -> list[str]:
        """The names of a task's answers, given its first cell."""
        name = file_of(cell)
        if name:
            return self.faults if name == "mend.py" else list(SHOWN[name])
        statements = ast.parse(solve(cell, True, EXAM)).body
        return [statement.targets[0].id for statement in statements]


# What a program is asked for; course/grade/ranks.py looks at it.
SHOWN = {
    "convert.py": ("group", "share", "order", "batch", "average", "save"),
    "evaluate.py": ("value", "once", "few"),
    "resume.py": ("model", "optimizer", "extra", "epoch", "whole"),
}


def drawn(root: Path, seed: str) -> Exam:
    """The exam of a seed. BuildError when there is no secret."""
    return Exam(root, number(seed), secret(root))


def folder(root: Path) -> Path:
    return root / "build" / EXAM


def made(root: Path) -> str:
    """The seed of the only exam that was made here."""
    seeds = [path.stem.partition("-")[2] for path in sorted(folder(root).glob(f"{EXAM}-*.ipynb"))]
    if len(seeds) != 1:
        there = f"of seeds {', '.join(seeds)}" if seeds else "none"
        remedy = "say which one it is, as in `make grade DIR=sheets EXAM=1 SEED=1234`."
        raise BuildError(f"{folder(root)}: the exams made here are {there}: {remedy}")
    return seeds[0]
