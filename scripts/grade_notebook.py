"""Our notebook with one student's lines in it, as steps for the sandbox; what comes of each check.

Only the lines of exercises are the student's. A check runs in a cell of its own, behind a guard.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from build_grammar import tags
from grade_lessons import Lesson, Place
from grade_match import UNREADABLE, Answer
from grade_sandbox import TOOLS
from grade_watch import Outcome

SOLVED = "✓"
OPEN = "open"
ERROR = "error"
LAST = 8  # how many lines of what a check printed are kept
START = f"import sys\nsys.path.insert(0, {TOOLS!r})\nimport grade_guard\ndel sys.path[0]"
GUARD = "__import__('grade_guard').restore()"
RAISED = re.compile(r"^(?:\[\w+\]: *)?(\w*(?:Error|Exception): .+)", re.MULTILINE)


class Step(NamedTuple):
    """One cell that the sandbox runs."""

    code: str
    number: int  # of the cell in our notebook that it comes from
    check: bool = False


@dataclass
class Verdict:
    """What one submission came to."""

    marks: dict[str, str] = field(default_factory=dict)  # exercise → ✓, open or error
    texts: dict[str, str] = field(default_factory=dict)  # of those not solved: what was printed
    notes: list[str] = field(default_factory=list)


def judging(lines: list[str]) -> int:
    """Where, in our lines after a region, the first begins that belongs to no block above."""
    for number, line in enumerate(lines):
        if line and not line.startswith(" "):
            return number
    return len(lines)


def filled(place: Place, answer: Answer, tail: list[str]) -> str:
    """A cell of ours with a student's lines, up to `tail`, our lines after the last of them."""
    lines = [*answer.above, *(place.fixed[0] if answer.head else [])]
    between = [*place.fixed[1:-1], tail if answer.tail else []]
    for region, following in zip(answer.regions, between, strict=True):
        lines += region + following
    return "\n".join(lines)


def steps(lesson: Lesson, answers: dict[int, Answer]) -> list[Step]:
    """Everything to run, up to the last check."""
    judges = {number for cells in lesson.checks.values() for number in cells}
    made = [Step(START, 0)]
    for number, cell in enumerate(lesson.cells[: lesson.last() + 1]):
        if cell.cell_type != "code":
            continue
        check = cell.source
        if number in lesson.places:
            place = lesson.places[number]
            last = place.fixed[-1]
            cut = judging(last) if number in judges else len(last)
            made.append(Step(filled(place, answers[number], last[:cut]), number))
            check = "\n".join(last[cut:]).strip()
        if number in judges:
            made.append(Step(GUARD, number))
            made.append(Step(check, number, check=True))
        elif number not in lesson.places:
            made.append(Step(cell.source, number))
        if "parameters" in tags(cell):
            small = [f"{name} = {value!r}" for name, value in lesson.quick.items()]
            made.append(Step("\n".join(small), number))
    return [step for step in made if step.code.strip()]


def head(step: Step) -> str:
    """A step as teachers find it: the number of the cell, and how it begins."""
    return f"cell {step.number + 1} ({step.code.strip().splitlines()[0][:60]})"


def first_error(made: list[Step], outcome: Outcome, indexes: range) -> str:
    """The first error of some steps, with what the ranks of a launch said; "" without any."""
    raised = ""
    for index in indexes:
        ended = outcome.cells.get(index)
        if ended is None:
            continue
        if made[index].code.startswith("!"):
            found = RAISED.search(ended.text)
            raised = found[1] if found else ""
        if ended.error:
            cause = f"\n{raised}" if raised and "LaunchError" in ended.error else ""
            return f"{head(made[index])}: {ended.error}{cause}"
    return ""


def judge(lesson: Lesson, exercise: str, made: list[Step], outcome: Outcome) -> tuple[str, str]:
    """✓, open or error; and for the latter two what was printed."""
    cells = lesson.checks[exercise]
    own = [number for number in lesson.places if lesson.exercise(number) == exercise]
    first = min([*own, *cells])
    marks = ""
    texts = []
    stopped = False
    for index, step in enumerate(made):
        if not step.check or step.number not in cells:
            continue
        ended = outcome.cells.get(index)
        if ended is None or ended.error:
            stopped = True
        elif not ended.marks:
            marks += "?"  # a check that printed neither
        if ended is not None:
            marks += ended.marks
            texts += ended.text.splitlines()[-LAST:]
    if not stopped and set(marks) == {SOLVED}:
        return SOLVED, ""
    whole = [index for index, step in enumerate(made) if first <= step.number <= cells[-1]]
    error = first_error(made, outcome, range(whole[0], whole[-1] + 1))
    if not stopped:
        return OPEN, "\n".join([*texts, error]).strip()
    if outcome.running in whole:
        return ERROR, outcome.problem or "its kernel ended"
    return ERROR, error or "not reached"


def verdict(
    lesson: Lesson, answers: dict[int, Answer], made: list[Step], outcome: Outcome
) -> Verdict:
    """What a run came to."""
    found = Verdict()
    for exercise in lesson.checks:
        mark, text = judge(lesson, exercise, made, outcome)
        found.marks[exercise] = mark
        if mark != SOLVED:
            found.texts[exercise] = text
    for number, answer in answers.items():
        exercise = lesson.exercise(number)
        if answer.note:
            found.notes.append(f"exercise {exercise}: {answer.note}")
        if answer.note == UNREADABLE:
            found.marks[exercise] = ERROR
            found.texts[exercise] = UNREADABLE
    if outcome.problem:
        at = f" at {head(made[outcome.running])}" if outcome.running is not None else ""
        found.notes.append(f"stopped{at}: {outcome.problem}")
    return found
