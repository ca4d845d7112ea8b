"""The workshop: a class of 90 minutes in one notebook, from cells tagged `workshop` or `class`.

Behind each program with an exercise comes a way back in for those who are late: a folded cell that
writes the finished program beside it, and a line that puts it in its place.
"""

import ast
import re
import subprocess
from copy import copy
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell
from ruff.__main__ import find_ruff_bin

from course.build.lessons import decorate
from course.build.python import imports, names
from course.build.session import all_needed, check_launches, shared
from course.launches import parsed
from course.lesson import WORKSHOP, Cell, Lesson, about, bundle, demand
from course.outputs import notebook
from course.sources import HIDDEN, Course

TAGS = {"workshop", "class"}
SOURCE = "notebooks/src/*.md, cells tagged workshop"
GPU_MINUTES = 6  # of a whole run on Kaggle: a guess, not measured
# A comment, so that a class that runs all cells still does the exercise.
CATCH_UP = """\
# Behind? Take away the # in the next line, run this cell, and go on with the launch.
# !cp {finished} {program}"""


def twin(cell: Cell) -> Cell:
    """The workshop's own copy of a cell."""
    double = copy(cell)
    double.node = copy(cell.node)
    return double


def chosen(lesson: Lesson) -> list[Cell]:
    """The cells of a lesson that the workshop has, too: without parameters, and without files
    that are only imported.
    """
    tagged = [cell for cell in lesson.cells if TAGS & set(cell.tags)]
    left_out = [*lesson.tagged("parameters"), shared(lesson)]
    return [twin(cell) for cell in tagged if cell not in left_out]


def turn(lesson: str, cell: Cell) -> tuple[str, bool]:
    """When a cell has its turn: with its lesson, or, tagged `after-06`, right after lesson 06."""
    for tag in cell.tags:
        if re.fullmatch(r"after-\d+", tag):
            return tag.removeprefix("after-"), True
    return lesson, False


def in_turn(lessons: dict[Path, Lesson]) -> list[Cell]:
    """The cells of all lessons in the workshop's order."""
    turns = []
    for path, lesson in lessons.items():
        turns += [(turn(path.stem[:2], cell), cell) for cell in chosen(lesson)]
    turns.sort(key=lambda item: item[0])
    return [cell for _, cell in turns]


def once(course: Course, cells: list[Cell], solved: bool) -> list[Cell]:
    """The cells with each program written once; unsolved, its live exercises are open."""
    kept: list[Cell] = []
    written: set[str] = set()
    for cell in cells:
        name = cell.file
        if name in written:
            continue
        if name:
            written.add(name)
            text = course.program(name, solved, cell.place, live=not solved)
            cell.source = f"%%writefile {name}\n{text}"
        kept.append(cell)
    return kept


def with_ways_back(course: Course, cells: list[Cell]) -> list[Cell]:
    """The cells, and behind each program with an exercise its finished twin and how to take it."""
    kept: list[Cell] = []
    for cell in cells:
        kept.append(cell)
        program = cell.file
        if program and cell.regions:
            finished = f"finished_{program}"
            text = f"%%writefile {finished}\n{course.program(program, True, cell.place)}"
            folded = {"tags": ["class", "fold"], **HIDDEN}
            line = CATCH_UP.format(finished=finished, program=program)
            plain = {"tags": ["class"]}
            name = cell.node.id
            for made in (
                new_code_cell(text, id=f"{name}-finished", metadata=folded),
                new_code_cell(line, id=f"{name}-catch-up", metadata=plain),
            ):
                kept.append(Cell(made, cell.place))
    return kept


def needed(parameters: str, used: set[str]) -> list[ast.stmt]:
    """The statements of a parameters cell on which the used names rest."""
    kept = []
    for statement in reversed(ast.parse(parameters).body):
        if names(statement, defined=True) & used:
            used = used | names(statement)
            kept.insert(0, statement)
    return kept


def imported_by(lesson: Lesson) -> list[str]:
    """The files that a lesson only imports."""
    cell = shared(lesson)
    return list(cell.files) if cell else []


def imported(course: Course, lessons: dict[Path, Lesson], cells: list[Cell]) -> list[Cell]:
    """The folded cell of all files that these cells import, or their programs do. What a lesson
    imports and the class launches has a cell of its own.
    """
    written = {name for cell in cells for name in cell.files}
    wanted = set(written)
    for cell in cells:
        if cell.is_code and not cell.files:
            wanted |= {f"{module}.py" for module in imports(parsed(cell.source, cell.place))}
    programs = frozenset(course.programs)

    def text(name: str) -> str:
        return course.program(name, True, "workshop")

    needed = all_needed(wanted & programs, text, programs)
    offered = [name for lesson in lessons.values() for name in imported_by(lesson)]
    lacking = [name for name in dict.fromkeys(offered) if name in set(needed) - written]
    texts = {name: text(name) for name in lacking}
    launched = {cell.launch.program for cell in cells if cell.launch}
    alone = {name: texts.pop(name) for name in lacking if name in launched}
    sources = {"files": bundle(texts)} if texts else {}
    sources |= {
        Path(name).stem: f"%%writefile {name}\n{content}" for name, content in alone.items()
    }
    metadata = {"tags": ["fold", "workshop"], **HIDDEN}
    folded = []
    for name, source in sources.items():
        node = new_code_cell(source, id=f"workshop-{name}", metadata=dict(metadata))
        folded.append(Cell(node, "workshop"))
    return folded


class Parameters:
    """The parameters that the workshop's cells use, each once, and their values for a quick run."""

    def __init__(self):
        self.defaults: dict[str, str] = {}
        self.lines: dict[str, str] = {}  # the lines of each statement, with their comments
        self.quick: dict = {}

    def add(self, lesson: Lesson, quick: dict) -> None:
        """Add what the tagged cells of a lesson use of its parameters."""
        used: set[str] = set()
        taken: set[str] = set()
        for cell in chosen(lesson):
            if cell.is_code and not cell.file:
                used |= set(re.findall(r"\w+", cell.source))
        for cell in lesson.tagged("parameters"):
            for statement in needed(cell.source, used):
                taken |= self.take(statement, cell.source, cell.place)
        self.quick |= {name: value for name, value in quick.items() if name in taken}

    def take(self, statement: ast.stmt, source: str, place: str) -> set[str]:
        """Add a statement; the names that it sets."""
        code = ast.get_source_segment(source, statement)
        defined = names(statement, defined=True)
        for name in sorted(defined):
            default = self.defaults.setdefault(name, code)
            demand(default == code, place, f"the workshop has another {name}.")
        lines = source.splitlines()[statement.lineno - 1 : statement.end_lineno]
        self.lines[code] = "\n".join(lines)
        return defined

    def cell(self) -> Cell:
        metadata = {"tags": ["parameters", "workshop"]}
        text = "\n".join(self.lines.values())
        return Cell(new_code_cell(text, id="workshop-parameters", metadata=metadata), "workshop")


def check_names(built: NotebookNode) -> None:
    """Refuse a name that no cell defines, as when the cell that does is not tagged."""
    command = [find_ruff_bin(), "check", "--isolated", "--select=F821", "--output-format=concise"]
    command += ["--quiet", "--stdin-filename=workshop.ipynb", "-"]
    text = nbformat.writes(built)
    answer = subprocess.run(command, input=text, capture_output=True, text=True)
    problem = f"no tagged cell defines a name:\n{answer.stdout}{answer.stderr}"
    demand(answer.returncode == 0, "workshop", problem)


def workshop(course: Course, lessons: dict[Path, Lesson], solved: bool) -> NotebookNode | None:
    """The workshop, with each program and each parameter once; None when no cell is tagged."""
    cells = once(course, in_turn(lessons), solved)
    if not cells:
        return None
    parameters = Parameters()
    for path, lesson in lessons.items():
        parameters.add(lesson, about(course.sources[path]).get("quick", {}))
    # The parameters come first among the code.
    is_code = [cell.is_code for cell in cells]
    first = is_code.index(True) if True in is_code else len(cells)
    cells[first:first] = [*imported(course, lessons, cells), parameters.cell()]
    whole = Lesson(with_ways_back(course, cells))
    check_launches(course.programs, whole)
    decorate(whole, WORKSHOP)
    course_of = {"quick": parameters.quick, "gpu_minutes": GPU_MINUTES}
    built = notebook(whole, SOURCE, course_of)
    check_names(built)
    return built
