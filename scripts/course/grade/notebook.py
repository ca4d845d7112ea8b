"""Our notebook with one student's lines in it, as steps for the sandbox; what comes of each check.

Only the lines of exercises are the student's. A check runs in a cell of its own, behind a guard.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from course.grade.match import UNREADABLE, Answer
from course.grade.read import Workbook
from course.grade.sandbox import TOOLS, Outcome
from course.launches import launch_of
from course.lesson import assigned, tags

SOLVED = "✓"
OPEN = "open"
ERROR = "error"
LAST = 8  # how many lines of what a check printed are kept
START = f"import sys\nsys.path.insert(0, {TOOLS!r})\nimport guard\ndel sys.path[0]"
GUARD = "__import__('guard').restore()"
RAISED = re.compile(r"^(?:\[\w+\]: *)?(\w*(?:Error|Exception): .+)", re.MULTILINE)


class Step(NamedTuple):
    """One cell that the sandbox runs."""

    code: str
    number: int  # of the cell in our notebook that it comes from
    check: bool = False

    def __str__(self) -> str:
        """As teachers find it: the number of the cell, and how it begins."""
        return f"cell {self.number + 1} ({self.code.strip().splitlines()[0][:60]})"


@dataclass
class Verdict:
    """What one submission came to."""

    marks: dict[str, str] = field(default_factory=dict)  # exercise → ✓, open or error
    texts: dict[str, str] = field(default_factory=dict)  # of those not solved: what was printed
    notes: list[str] = field(default_factory=list)


def steps(lesson: Workbook, answers: dict[int, Answer]) -> list[Step]:
    """Everything to run, up to the last check."""
    plan = [Step(START, 0)]
    for number, cell in enumerate(lesson.cells[: max(lesson.judges) + 1]):
        if cell.cell_type != "code":
            continue
        code = cell.source
        if number in lesson.places:
            plan.append(Step("\n".join(answers[number].lines), number))
            code = "\n".join(lesson.places[number].check)
        if number in lesson.judges:
            plan.append(Step(GUARD, number))
        plan.append(Step(code, number, check=number in lesson.judges))
        if "parameters" in tags(cell):
            plan.append(Step(assigned(lesson.quick), number))
    return [step for step in plan if step.code.strip()]


def first_error(plan: dict[int, Step], outcome: Outcome) -> str:
    """The first error of some steps, with what the ranks of a launch said; "" without any."""
    raised = None
    for index, step in plan.items():
        ended = outcome.cells.get(index)
        if ended and ended.error:
            cause = f"\n{raised[1]}" if raised and "LaunchError" in ended.error else ""
            return f"{step}: {ended.error}{cause}"
        if ended and launch_of(step.code):
            raised = RAISED.search(ended.text)
    return ""


def judge(plan: dict[int, Step], outcome: Outcome) -> tuple[str, str]:
    """✓, open or error of one exercise, given its steps; for the latter two what was printed."""
    checks = [outcome.cells.get(index) for index, step in plan.items() if step.check]
    if None in checks and outcome.running in plan:
        return ERROR, outcome.problem
    error = first_error(plan, outcome)
    if None in checks or any(check.error for check in checks):
        return ERROR, error or "not reached"
    if all(set(check.marks) == {SOLVED} for check in checks):
        return SOLVED, ""
    printed = [line for check in checks for line in check.text.splitlines()[-LAST:]]
    return OPEN, "\n".join([*printed, error]).strip()


def verdict(
    lesson: Workbook, answers: dict[int, Answer], plan: list[Step], outcome: Outcome
) -> Verdict:
    """What a run came to."""
    result = Verdict()
    for exercise in lesson.exercises:
        own = {n: step for n, step in enumerate(plan) if lesson.exercise(step.number) == exercise}
        mark, text = judge(own, outcome)
        result.marks[exercise] = mark
        if text:
            result.texts[exercise] = text
    for number, answer in sorted(answers.items()):
        exercise = lesson.exercise(number)
        if answer.note:
            result.notes.append(f"exercise {exercise}: {answer.note}")
        if answer.note == UNREADABLE:
            result.marks[exercise] = ERROR
            result.texts[exercise] = UNREADABLE
    if outcome.problem:
        at = f" at {plan[outcome.running]}" if outcome.running is not None else ""
        result.notes.append(f"stopped{at}: {outcome.problem}")
    return result
