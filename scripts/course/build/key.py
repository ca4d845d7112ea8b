"""The answers to the homework of both semesters, for teachers: one page, never part of the site.

A week's homework in assets/semester.md is the exercises of *Going further*, those that it names,
and one open task. The exercises are solved in the lessons; assets/homework.toml says what the open
tasks come to, one a row.
"""

import re
import textwrap
from typing import NamedTuple

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from course.build.lessons import asking
from course.facts.minutes import PARTS, pieces
from course.lesson import SOLUTION, Cell, Lesson, demand, divided
from course.rooms import lexer
from course.sources import Course

PLAN = "semester.md"
TASKS = "homework.toml"
HEAD = """\
# Answers to the homework · 作業解答

For teachers: the solved exercises of each week, and what the open task comes to.

給老師：每週練習的解答，以及開放題該看什麼。"""


class Week(NamedTuple):
    """A row of the plan."""

    title: str
    homework: str
    lesson: str  # its number, as "09"; "" of a project
    last: bool  # whether no later week has the same lesson


def weeks(course: Course) -> list[Week]:
    """The rows of both plans, in order."""
    path = course.root / "assets" / PLAN
    text = path.read_text() if path.exists() else ""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if re.match(r"\| \d", line)]
    demand(rows, course.name(path), "no row begins with a week: write `| 1 | lesson | homework |`.")
    numbers = [re.search(r"\d\d", lesson) for _, lesson, _ in rows]
    lessons = [number[0] if number else "" for number in numbers]
    plan = []
    for at, (week, lesson, homework) in enumerate(rows):
        title = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", lesson)
        last = lessons[at] not in lessons[at + 1 :]
        plan.append(Week(f"Week {week} · 第 {week} 週: {title}", homework, lessons[at], last))
    return plan


def tasks(course: Course, rows: int) -> list[str]:
    """What each open task comes to, in both languages."""
    place = f"assets/{TASKS}"
    written = course.asset(TASKS).get("task", [])
    remedy = f"write one [[task]] for each of the {rows} rows of assets/{PLAN}, in their order."
    demand(len(written) == rows, place, f"it has {len(written)} tasks: {remedy}")
    for number, task in enumerate(written, 1):
        both = task.keys() == {"english", "chinese"}
        demand(both, place, f"task {number} needs `english` and `chinese`, and nothing else.")
    return [f"{task['english']}\n\n{task['chinese']}" for task in written]


def wanted(lesson: Lesson, week: Week) -> list[str]:
    """The exercises of a week: those that it names, and in the lesson's last week the further."""
    named = re.findall(r"Exercises? (\d+)", week.homework)
    further = False
    chosen = []
    for cell in lesson.cells:
        for heading in cell.headings:
            further = further or PARTS.get(heading.text) == "further"
            if heading.exercise and (heading.exercise in named or (further and week.last)):
                chosen.append(heading.exercise)
    return chosen


def typed(course: Course, program: str) -> str:
    """The lines of a program that its exercise asks for."""
    solutions = []
    for match in SOLUTION.finditer(course.programs[program].read_text()):
        lines, _ = divided(match["lines"])
        solutions.append(textwrap.dedent("\n".join(lines)))
    code = "\n\n# …\n\n".join(solutions)
    return f"`{program}`:\n\n```{lexer(program)}\n{code}\n```"


def question(cell: Cell, number: str) -> str:
    """What a cell says from the heading of an exercise on."""
    return next(
        text for heading, text in pieces(cell.source) if heading and heading.exercise == number
    )


def answered(course: Course, lesson: Lesson, solved: Lesson, number: str) -> list[NotebookNode]:
    """An exercise of a lesson with its solution; `solved` is the built notebook with outputs."""
    by_id = {cell.node.id: cell for cell in solved.cells}
    shown = []
    for at, section in enumerate(lesson.sections):
        own = section.exercise == number
        for cell in section.cells:
            asked = cell.file and cell.regions and (own or not section.exercise)
            if asked and (own or asking(lesson.sections[at:], cell.file) == number):
                shown.append(new_markdown_cell(typed(course, cell.file)))
            elif own and cell.headings:
                shown.insert(0, new_markdown_cell(question(cell, number)))
            elif own and not cell.files and (cell.regions or cell.is_check):
                twin = by_id[cell.node.id].node
                shown.append(new_code_cell(twin.source, outputs=twin.outputs))
    for section in solved.sections:
        if section.exercise == number:
            shown += [cell.node for cell in section.cells if "solution" in cell.tags]
    return shown


def key(course: Course) -> NotebookNode:
    """The answers, week by week."""
    plan = weeks(course)
    cells = [new_markdown_cell(HEAD)]
    paths = {path.stem[:2]: path for path in course.sources}
    for week, task in zip(plan, tasks(course, len(plan)), strict=True):
        cells.append(new_markdown_cell(f"## {week.title}\n\n{week.homework}\n\n{task}"))
        if not week.lesson:
            continue
        demand(week.lesson in paths, f"assets/{PLAN}", f"there is no lesson {week.lesson}.")
        path = paths[week.lesson]
        lesson = course.lesson(path, solved=False).own
        solved = Lesson.at(course.notebooks / "solutions" / f"{path.stem}.ipynb")
        for number in wanted(lesson, week):
            cells += answered(course, lesson, solved, number)
    for at, cell in enumerate(cells):
        cell.id = f"key-{at}"
    return new_notebook(cells=cells, metadata={"title": "Answers · 解答"})


def page(course: Course) -> str:
    """The answers as a page of HTML."""
    from nbconvert import HTMLExporter  # takes a second

    exporter = HTMLExporter(exclude_input_prompt=True, exclude_output_prompt=True)
    text, _ = exporter.from_notebook_node(key(course))
    return text
