"""Grade a folder of students' notebooks, each run again in a sandbox; build/grades tells the rest.

make grade DIR=submissions                      # every file in the folder and below
make grade DIR=submissions OPTIONS="--jobs 2"   # two at a time
make grade DIR=sheets EXAM=1                    # an exam of `make exam`, with points
python -m course.grade submissions --all       # those already graded, too

Only what a student wrote into the exercises is taken, and put into our own notebook, whose checks
judge it. A submission is named after its folder, as submissions/student-01/06_ddp.ipynb, or else
after its file. It runs with the small parameters that tests use. What was graded is not run again
while neither the file nor our notebook changes. Exits 1 when nothing could be graded here.
"""

import argparse
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tqdm import tqdm

from course import ROOT
from course.grade.exam import Examiner, Points
from course.grade.match import answers
from course.grade.notebook import Verdict, steps, verdict
from course.grade.read import Submission, files, load, read
from course.grade.results import Results, Row, row
from course.grade.sandbox import REMEDY, Limits, Outcome, Sandbox
from course.lesson import BuildError
from course.processes import Work, guarded

WARNING = """\
This runs code that students wrote. Each notebook runs in a sandbox: without a network, without your
files and settings (it reads Python, its packages and this system's programs), and within
{limits}.
The sandbox keeps mistakes and ordinary mischief away from this machine. It is no defence against
a hole in the Linux kernel. And the checks run beside the student's code: who reads them and sets
out to deceive them can. Look at answers that surprise you.
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("folder", help="with the students' notebooks, in it or below")
    add("--jobs", type=int, default=1, help="notebooks side by side (1)")
    add("--limit", type=float, default=600, help="seconds for a whole notebook (600)")
    add("--cell", type=float, default=120, help="seconds for a cell, which is then left (120)")
    add("--memory", type=float, default=8, help="GiB for all processes of a notebook (8)")
    add("--processes", type=int, default=256, help="of a notebook (256)")
    add("--disk", type=float, default=2, help="GiB of files that it may write, in memory (2)")
    add("--all", action="store_true", help="grade also what was graded before")
    add("--results", type=Path, help="folder for grades.csv and index.html (build/grades)")
    add(
        "--exam",
        metavar="SEED",
        help="they are sheets of this exam; of the only one, if SEED is ''",
    )
    add("--root", type=Path, default=ROOT, help="of the course")
    args = parser.parse_args()
    if not args.folder:  # as from `make grade` without DIR
        parser.error("name the folder of the students' notebooks: make grade DIR=submissions")
    args.folder = Path(args.folder)
    if not args.folder.is_dir():
        parser.error(f"{args.folder} is no folder")
    return args


class Grader:
    """One run over a folder of submissions."""

    def __init__(self, args: argparse.Namespace, work: Work, examiner: Examiner | None):
        self.args = args
        self.work = work
        self.examiner = examiner
        folder = f"exam/grades-{examiner.exam.seed}" if examiner else "grades"
        place = args.results or args.root / "build" / folder
        self.results = Points(place, examiner) if examiner else Results(place)
        memory = round(args.memory * 1024)
        disk = round(args.disk * 1024)
        self.limits = Limits(args.limit, args.cell, memory, args.processes, disk)
        self.stopped = threading.Event()
        self.lock = threading.Lock()
        self.bar = None

    def sandbox(self, name: str) -> Sandbox:
        return Sandbox(self.work.folder / name, self.limits, self.args.root / "data", self.work)

    def run(self, name: str, codes: list[str]) -> Outcome:
        return self.sandbox(name).run(codes, self.stopped)

    def grade(self, submission: Submission, name: str) -> Row:
        """Run one submission, or only say that it is none."""
        if self.examiner:
            return self.examiner.row(submission, partial(self.run, name))
        if submission.lesson is None:
            return row(submission, Verdict(), 0)
        written = answers(submission.lesson, submission.cells)
        plan = steps(submission.lesson, written)
        outcome = self.run(name, [step.code for step in plan])
        return row(submission, verdict(submission.lesson, written, plan, outcome), outcome.seconds)

    def one(self, number: int, submission: Submission) -> None:
        """Grade one submission and write down what came of it."""
        if self.stopped.is_set():
            return
        self.bar.set_postfix_str(submission.student)
        try:
            made = self.grade(submission, str(number))
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            # No notebook is known that does this; one that does must not stop the others.
            made = row(submission, Verdict(notes=[f"not graded: {error!r}"]), 0)
        if self.stopped.is_set():
            return  # it was broken off
        with self.lock:
            self.results.rows[made.file] = made
            self.results.write()
        outcome = f"{made.lesson}, {made.count}, {made.seconds:.0f} s" if made.lesson else ""
        tqdm.write(f"{made.student}: {'; '.join(filter(None, [outcome, made.note]))}")
        self.bar.update()

    def all(self, submissions: list[Submission]) -> None:
        silent = not sys.stderr.isatty()
        self.bar = tqdm(total=len(submissions), unit="notebook", disable=silent)
        pool = ThreadPoolExecutor(max(1, self.args.jobs))
        try:
            list(pool.map(self.one, range(len(submissions)), submissions))
        finally:
            self.stopped.set()
            self.work.end()
            pool.shutdown(cancel_futures=True)
            self.bar.close()


def grade(args: argparse.Namespace, work: Work) -> int:
    """Grade what was not graded before; say what came of it."""
    examiner = Examiner(args.root, args.exam) if args.exam is not None else None
    lessons = [examiner.book] if examiner else load(args.root)
    submissions = [read(path, args.folder, lessons) for path in files(args.folder)]
    if examiner:
        examiner.check(args.folder, submissions)
    grader = Grader(args, work, examiner)
    results = grader.results
    new = []
    for submission in submissions:
        earlier = None if args.all else results.earlier(submission)
        if earlier:
            results.rows[earlier.file] = earlier
        else:
            new.append(submission)
    counts = f"{len(submissions)} files, {len(submissions) - len(new)} of them graded before"
    print(f"{counts} (--all grades them again)")
    if any(submission.lesson for submission in new):
        problem = grader.sandbox("probe").probe()
        if problem:
            print(f"grade: no sandbox can be made here: {problem}\n{REMEDY}", file=sys.stderr)
            return 1
        print(WARNING.format(limits=grader.limits))
    if examiner:
        examiner.learn(partial(grader.run, "key"))
    results.write()
    grader.all(new)
    print(f"\nOpen {results.folder / 'index.html'}; the table is {results.folder / 'grades.csv'}")
    return 0


def main() -> int:
    args = arguments()
    os.umask(0o077)  # grades are nobody else's to read
    with guarded("COURSE_GRADE", "grade-") as work:
        try:
            return grade(args, work)
        except BuildError as error:
            print(f"grade: {error}", file=sys.stderr)
            return 1
        except OSError as error:
            place = error.filename or work.folder
            print(f"grade: cannot use {place} ({error.strerror})", file=sys.stderr)
            return 1
        except SystemExit:
            print("\ngrade: interrupted; what was graded so far is written", file=sys.stderr)
            raise


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    sys.exit(main())
