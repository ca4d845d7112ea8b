"""The results of grading, kept after each submission: grades.csv, and a page for teachers."""

import csv
import io
import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from course.files import write
from course.grade.notebook import SOLVED, Verdict
from course.grade.read import Submission, encodable

LOADER = FileSystemLoader(Path(__file__).parent)
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with these a spreadsheet begins to calculate


@dataclass
class Row:
    """What one submission came to."""

    file: str
    student: str
    digest: str  # of the file
    lesson: str = ""
    built: str = ""  # digest of our notebook
    marks: dict[str, str] = field(default_factory=dict)  # exercise → ✓, open or error
    texts: dict[str, str] = field(default_factory=dict)  # of those not solved: what was printed
    seconds: float = 0
    note: str = ""
    hand_in: str = ""
    score: str = ""  # of an exam, as 73/100
    answers: dict[str, dict] = field(default_factory=dict)  # of an exam: task → name → answer

    @property
    def count(self) -> str:
        """Solved of all, as 2/3, or an exam's points; "" without exercises."""
        if self.score:
            return self.score
        solved = sum(mark == SOLVED for mark in self.marks.values())
        return f"{solved}/{len(self.marks)}" if self.marks else ""


def row(submission: Submission, verdict: Verdict, seconds: float) -> Row:
    """What a run came to; of a file that is no notebook of this course, why."""
    result = Row(submission.file, submission.student, submission.digest)
    result.note = "; ".join(filter(None, [submission.why, *verdict.notes]))
    result.hand_in = submission.hand_in
    result.marks = verdict.marks
    result.texts = verdict.texts
    result.seconds = round(seconds, 1)
    if submission.lesson:
        result.lesson = submission.lesson.name
        result.built = submission.lesson.digest
    return result


def exercises(rows: list[Row]) -> list[str]:
    """The names of all exercises that these rows tell of, in order."""
    return sorted({name for each in rows for name in each.marks}, key=int)


def plain(text: str) -> str:
    """A cell of a table that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def as_csv(rows: list[Row]) -> str:
    """All rows as a table with one column an exercise."""
    names = exercises(rows)
    columns = [f"exercise {name}" for name in names]
    last = ["solved", "seconds", "note", "hand-in line", "file"]
    lines = [["student", "lesson", *columns, *last]]
    for each in rows:
        marks = [each.marks.get(name, "") for name in names]
        count = each.count.replace("/", " of ")  # a spreadsheet would take 1/2 for a date
        end = [count, f"{each.seconds:g}", each.note, each.hand_in, each.file]
        lines.append([each.student, each.lesson, *marks, *end])
    file = io.StringIO()
    csv.writer(file).writerows([map(plain, line) for line in lines])
    return file.getvalue()


def page(rows: list[Row]) -> str:
    """A table a lesson: students × exercises, and how many solved each."""
    tables = []
    for lesson in sorted({each.lesson for each in rows if each.lesson}):
        own = [each for each in rows if each.lesson == lesson]
        solved = {}
        for name in exercises(own):
            solved[name] = sum(each.marks.get(name) == SOLVED for each in own)
        tables.append({"lesson": lesson, "rows": own, "solved": solved})
    others = [each for each in rows if not each.lesson]
    template = Environment(loader=LOADER, autoescape=True).get_template("grades.html.j2")
    return template.render(tables=tables, others=others)


class Results:
    """All rows of one folder of results."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.rows: dict[str, Row] = {}  # by file
        self.known: dict[str, Row] = {}  # of earlier runs
        with suppress(OSError, ValueError, TypeError, LookupError):  # none, or of another version
            rows = json.loads((folder / "grades.json").read_text())
            self.known = {each["file"]: Row(**each) for each in rows}

    def earlier(self, submission: Submission) -> Row | None:
        """What an earlier run said of the same file and the same notebook of ours."""
        known = self.known.get(submission.file)
        built = submission.lesson.digest if submission.lesson else ""
        same = known and (known.digest, known.built) == (submission.digest, built)
        return known if same else None

    def as_csv(self, rows: list[Row]) -> str:
        return as_csv(rows)

    def page(self, rows: list[Row]) -> str:
        return page(rows)

    def write(self) -> None:
        """Write everything: whatever comes next may be stopped."""
        self.folder.mkdir(parents=True, exist_ok=True)
        rows = sorted(self.rows.values(), key=lambda each: (each.lesson, each.student, each.file))
        # What was graded earlier stays known while this run has not come to it.
        kept = self.known | self.rows
        write(self.folder / "grades.json", json.dumps([asdict(each) for each in kept.values()]))
        table = "\ufeff" + self.as_csv(rows)  # Excel needs the mark to see ✓
        write(self.folder / "grades.csv", encodable(table))
        write(self.folder / "index.html", encodable(self.page(rows)))
