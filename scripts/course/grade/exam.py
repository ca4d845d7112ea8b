"""An exam, graded: what each answer of a sheet is worth; a table, and a page about the class.

Nothing in the sandbox knows what is right. It tells what a sheet answers; that is compared here
with what the teacher's key answers, which runs in a sandbox, too.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from math import isclose
from pathlib import Path
from statistics import mean

import nbformat
from jinja2 import Environment

from course.exam import paper
from course.grade.match import Answer, answers
from course.grade.notebook import GUARD, START, Step, Verdict
from course.grade.read import Submission, Workbook, Written
from course.grade.results import LOADER, Results, Row, plain, row
from course.grade.sandbox import TOOLS, Outcome
from course.lesson import EXAM, BuildError, Lesson, about, demand, file_of

# The programs run before any line of a student's runs in the notebook itself.
RUN = "import subprocess, sys\ncommand = [sys.executable, {program!r}, {sizes!r}]"
RUN += "\nprint(subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout)"
TELL = "__import__('guard').tell({task!r}, {names!r})"
Told = dict[str, dict]  # task → name of an answer → the answer


def right(answer: object, wanted: object) -> bool:
    """Whether an answer is that of the key."""
    if isinstance(wanted, bool):
        return answer is wanted
    if isinstance(wanted, str):
        return isinstance(answer, str) and answer.strip().casefold() == wanted.casefold()
    number = isinstance(answer, int | float) and not isinstance(answer, bool)
    return number and isclose(answer, wanted, rel_tol=1e-6)


def of_exam(path: Path) -> str:
    """Which exam a file is a sheet of, as `1234-9f3c`; "" if of none."""
    with suppress(Exception):  # it is no notebook, in one of many ways
        notebook = nbformat.read(path, as_version=4)
        title = Lesson.of(notebook).title.split(" · ")[0]
        if title.startswith("Exam "):
            return title.removeprefix("Exam ")
        source, _, mark = about(notebook).get("generated_from", "").partition(", ")
        return mark if Path(source).stem == EXAM else ""
    return ""


class Examiner:
    """One exam, and how it is judged."""

    def __init__(self, root: Path, seed: str):
        self.exam = paper.drawn(root, seed or paper.made(root))
        self.points = self.exam.points
        self.book = Workbook(self.exam.book(solved=False), EXAM, self.exam.stubs)
        self.wanted: Told = {}

    @property
    def most(self) -> dict[str, int]:
        """The points of each task."""
        return {task: sum(worth.values()) for task, worth in self.points.items()}

    def check(self, folder: Path, submissions: list[Submission]) -> None:
        """Put aside sheets of other exams; BuildError when there is none of this one."""
        others = Counter()
        for submission in submissions:
            other = of_exam(folder / submission.file)
            if other not in ("", self.exam.mark):
                others[other] += 1
                submission.lesson = None
                submission.why = f"a sheet of exam {other}, and this is {self.exam.mark}"
        if any(submission.lesson for submission in submissions):
            return
        remedy = "name the folder with the notebooks that the class handed in."
        demand(others, str(folder), f"it holds no sheet of an exam: {remedy}")
        ((other, _),) = others.most_common(1)
        seed = other.partition("-")[0]
        remedy = f"name their seed, SEED={seed}"
        if seed == str(self.exam.seed):
            remedy = (
                f"take the {paper.SECRET} and the version of the course that they were made with"
            )
        problem = f"its sheets are of exam {other}, and this is {self.exam.mark}"
        raise BuildError(f"{folder}: {problem}: {remedy}.")

    def steps(self, written: dict[int, Answer]) -> list[Step]:
        """What the sandbox runs of a sheet: first its programs, then each other task."""
        plan = [Step(START, 0)]
        for number, cell in enumerate(self.book.cells):
            if cell.cell_type == "code" and file_of(cell.source):
                own = number in written
                plan.append(Step("\n".join(written[number].lines) if own else cell.source, number))
        sizes = json.dumps(self.exam.sizes)
        plan.append(Step(RUN.format(program=f"{TOOLS}/ranks.py", sizes=sizes), 0, check=True))
        for task, (number, place) in zip(self.points, self.book.places.items(), strict=True):
            if not place.program:
                tell = TELL.format(task=task, names=list(self.points[task]))
                lines = [place.unsolved(), written[number].lines]
                plan += [Step("\n".join(each), number) for each in lines]
                plan += [Step(GUARD, number), Step(tell, number, check=True)]
        return plan

    def told(self, cells: list[Written], run: Callable) -> tuple[Told, Outcome, list[str]]:
        """What the code cells of a sheet answer, and what is unusual in them."""
        written = answers(self.book, cells)
        plan = self.steps(written)
        outcome = run([step.code for step in plan])
        found: Told = {}
        for number, step in enumerate(plan):
            ended = outcome.cells.get(number)
            if step.check and ended and ended.text.strip():
                with suppress(ValueError, TypeError):
                    found |= json.loads(ended.text.strip().splitlines()[-1])
        notes = []
        for task, number in zip(self.points, self.book.places, strict=True):
            if written[number].note:
                notes.append(f"task {task}: {written[number].note}")
        return found, outcome, notes

    def learn(self, run: Callable) -> None:
        """Find out what the key answers; BuildError if it does not get all of its points here."""
        key = self.exam.book(solved=True)
        code = [cell for cell in key.cells if cell.cell_type == "code"]
        self.wanted, outcome, _ = self.told([Written(cell.id, cell.source) for cell in code], run)
        for task, worth in self.points.items():
            told = self.wanted.get(task, {})
            # An answer may be 0, which equals False.
            missing = [name for name in worth if told.get(name) is None or told[name] is False]
            why = told.get("error") or outcome.problem or "no answer"
            problem = f"its own key has no {', '.join(missing)} in task {task} here ({why})"
            demand(
                not missing, f"exam {self.exam.mark}", f"{problem}: try again, with less running."
            )

    def lost(self, task: str, told: dict) -> list[str]:
        """The names of a task's answers that are not right in what a sheet tells of it."""
        wanted = self.wanted[task]
        return [name for name in self.points[task] if not right(told.get(name), wanted[name])]

    def earned(self, task: str, told: dict) -> int:
        """The points of a task for what a sheet tells of it."""
        lost = self.lost(task, told)
        return sum(points for name, points in self.points[task].items() if name not in lost)

    def row(self, submission: Submission, run: Callable) -> Row:
        """What a sheet is worth."""
        told: Told = {}
        made = row(submission, Verdict(), 0)
        if submission.lesson:
            told, outcome, notes = self.told(submission.cells, run)
            errors = [
                f"task {task}: {each['error']}" for task, each in told.items() if each.get("error")
            ]
            stopped = [f"stopped: {outcome.problem}"] if outcome.problem else []
            made.note = "; ".join([*notes, *errors, *stopped])
            made.seconds = round(outcome.seconds, 1)
        made.answers = {task: told.get(task, {}) for task in self.points}
        made.marks = {task: str(self.earned(task, each)) for task, each in made.answers.items()}
        made.score = f"{sum(map(int, made.marks.values()))}/{sum(self.most.values())}"
        return made

    def commonest(self, task: str, rows: list[Row]) -> str:
        """The wrong answer that most sheets give in a task; "" without any."""
        wrong = Counter()
        for each in rows:
            told = each.answers[task]
            for name in self.points[task]:
                answer = told.get(name)
                if answer not in (None, "") and not right(answer, self.wanted[task][name]):
                    wrong[f"{name}: not right" if answer is False else f"{name} = {answer}"] += 1
            if told.get("error"):
                wrong[told["error"]] += 1
        return "".join(f"{text} ({count})" for text, count in wrong.most_common(1))


class Points(Results):
    """All sheets of one exam."""

    def __init__(self, folder: Path, examiner: Examiner):
        super().__init__(folder)
        self.examiner = examiner

    def as_csv(self, rows: list[Row]) -> str:
        """All sheets as a table with one column a task."""
        most = self.examiner.most
        columns = [f"task {task} (of {points})" for task, points in most.items()]
        lines = [["student", "exam", *columns, "points", "seconds", "note", "file"]]
        for each in rows:
            marks = [each.marks[task] for task in most]
            total = each.score.partition("/")[0]
            end = [total, f"{each.seconds:g}", each.note, each.file]
            lines.append([each.student, self.examiner.exam.mark, *marks, *end])
        file = io.StringIO()
        csv.writer(file).writerows([map(plain, line) for line in lines])
        return file.getvalue()

    def page(self, rows: list[Row]) -> str:
        """How the points are distributed, what each task gave, and each sheet."""
        totals = [int(each.score.partition("/")[0]) for each in rows]
        bins = Counter(min(total // 10, 9) for total in totals)
        ranges = [f"{10 * ten}–{10 * ten + 9 + (ten == 9)}" for ten in range(10)]
        tasks = []
        for task, most in self.examiner.most.items():
            average = mean(int(each.marks[task]) for each in rows) if rows else 0
            wrong = self.examiner.commonest(task, rows)
            tasks.append({"task": task, "most": most, "mean": average, "wrong": wrong})
        lost = [
            {task: self.examiner.lost(task, told) for task, told in each.answers.items()}
            for each in rows
        ]
        template = Environment(loader=LOADER, autoescape=True).get_template("exam.html.j2")
        return template.render(
            mark=self.examiner.exam.mark,
            bins=[(name, bins[ten]) for ten, name in enumerate(ranges)],
            mean=mean(totals) if totals else 0,
            tasks=tasks,
            rows=[asdict(each) | {"lost": names} for each, names in zip(rows, lost, strict=True)],
        )
