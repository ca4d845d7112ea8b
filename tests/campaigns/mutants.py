"""Change what a program computes, one line at a time: the launch or test that is named must notice.

Run:  python tests/campaigns/mutants.py            # every mutant of every lesson: `make mutants`
      python tests/campaigns/mutants.py 06 09      # those of two lessons
      python tests/campaigns/mutants.py --green    # and note the lessons in which all were noticed

pytest tries them, as the tests of test_mutants.py, so many at a time as the machine can bear.

The mutants are data beside the lessons' tests, tests/lessons/mutants/NN_name.toml:

    [[mutant]]
    why = "the gradients are added up, not averaged"
    program = "average.py"
    old = "p.grad /= place.world_size"  # occurs once in the program, and is a part of one line
    new = "pass"
    launch = "average"                  # of the notebook; or test = "test_05_….py::test_x"
    before = ["cifar10"]                # launches that must have been made before, if there are any

Noticed means an assert that fails, in a cell, a program or a test, or a ✗ or “not yet” of a check.
Any other error does not count: a program that crashes says nothing about what it computes.
"""

import argparse
import ast
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import by_hand  # noqa: F401
import pytest
from slices import Wanted, imports, lessons, rests_on, written_down

from course import same
from course.forked import around, search_path
from course.launches import launch_of
from course.lesson import Lesson, about, assigned
from course.sources import Course

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "lessons" / "mutants"
GREEN = DATA / "green.json"  # for each lesson the hash of what was green in the last whole campaign
ASSERT = re.compile(r"^ *(?:E +)?(?:\[rank\d+\]: *)?(?:AssertionError|assert)\b", re.MULTILINE)
REJECTED = re.compile(r"✗|\bnot (?:\w+ )?yet\b")  # what the check of an exercise says
SECONDS = 15  # that a mutant should take; it is ended after LIMIT
LIMIT = 120
LEAST = {"00": 3, "12": 3}  # mutants of a lesson; all others have five
# They watch a notebook, and compute nothing: tests of their own and `make launch-faults` try them.
WATCHERS = {"launch.py", "handin.py"}
KEYS = {"why", "program", "old", "new", "launch", "test", "before"}
FORMAT = "(the format is at the top of tests/campaigns/mutants.py)"


class Mutant(NamedTuple):
    """One line of one program, changed, and who must notice it."""

    lesson: str  # as 06_ddp
    why: str
    program: str
    old: str
    new: str
    launch: str = ""
    test: str = ""
    before: tuple[str, ...] = ()

    @property
    def judge(self) -> str:
        return self.test or f"launch of {self.launch}"

    @property
    def place(self) -> str:
        """The file that holds it, and which of its mutants it is."""
        return f"tests/lessons/mutants/{self.lesson}.toml, “{self.why}”"


class Finding(NamedTuple):
    """What a trial of a mutant came to."""

    problem: str  # "" when it was noticed as it should be
    text: str  # all that was printed


def mutants(lesson: str) -> list[Mutant]:
    """The mutants of one lesson. ValueError names the file and what is wrong in it."""
    path = DATA / f"{lesson}.toml"
    file = path.relative_to(ROOT)
    rows = written_down(path, "mutants", FORMAT).get("mutant", [])
    least = LEAST.get(lesson[:2], 5)
    if len(rows) < least:
        raise ValueError(f"{file}: {len(rows)} mutants, at least {least} wanted {FORMAT}")
    read = []
    for number, row in enumerate(rows, 1):
        place = f"{file}, mutant {number}"
        if not {"why", "program", "old", "new"} <= row.keys() <= KEYS:
            needed = "it needs why, program, old, new, and launch or test"
            raise ValueError(f"{place}: {needed} {FORMAT}")
        if ("launch" in row) == ("test" in row):
            judges = "it names either a launch or a test that must notice it"
            raise ValueError(f"{place}: {judges} {FORMAT}")
        row["before"] = tuple(row.get("before", ()))
        read.append(Mutant(lesson, **row))
    return read


def readable(names: list[str]) -> tuple[list[Mutant], dict[str, str]]:
    """The mutants of these lessons; and lesson → what is wrong with its file, where it is."""
    every: list[Mutant] = []
    wrong: dict[str, str] = {}
    for name in names:
        try:
            every += mutants(name)
        except ValueError as error:
            wrong[name] = str(error)
    return every, wrong


def broken(text: str, mutant: Mutant) -> str:
    """The program with the changed line. ValueError when that line is not there exactly once."""
    times = text.count(mutant.old)
    if times != 1 or "\n" in mutant.old:
        problem = f"“{mutant.old}” occurs {times} times in {mutant.program}"
        raise ValueError(f"{mutant.place}: {problem}, not once and in one line")
    return text.replace(mutant.old, mutant.new)


def part(cells: list[str], launch: str, before: tuple[str, ...] = ()) -> list[str]:
    """The cells from a launch to the next one, and those before on which they rest.

    Launches named in `before` are made, too. ValueError when no cell launches it.
    """
    launches = map(launch_of, cells)
    programs = [launch.name if launch else None for launch in launches]
    if launch not in programs:
        raise ValueError(f"no cell launches {launch}.py")
    first = programs.index(launch)
    last = first + 1
    while last < len(cells) and not programs[last]:
        last += 1
    kept = cells[first:last]
    wanted = Wanted(reads={*before})
    for cell in reversed(kept):
        wanted.take(cell)
    needed = [cells[number] for number in rests_on(cells[:first], wanted)]
    return imports(cells[:first]) + needed + kept


def run(command: list, folder: Path, **environment: str) -> tuple[int, str]:
    """Exit code and printed text of a command; -1 when it takes too long."""
    settings = {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "PATH": search_path()}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | settings | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        text, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.terminate()
        text, _ = process.communicate()
        return -1, text
    return process.returncode, text


def by_launch(mutant: Mutant, folder: Path, whole: bool = False) -> tuple[int, str]:
    """Run the notebook around one launch, with the changed program (`whole`: as it is)."""
    course = Course(ROOT)
    path = ROOT / "notebooks" / "src" / f"{mutant.lesson}.md"
    quick = about(course.sources[path]).get("quick", {})
    cells = []
    for cell in course.lesson(path, solved=True).own.code:
        for name, text in cell.files.items():
            changed = name == mutant.program and not whole
            (folder / name).write_text(broken(f"{text}\n", mutant) if changed else f"{text}\n")
        if cell.files:
            continue
        if "parameters" in cell.tags:
            cells.append(f"{cell.source}\n{assigned(quick)}")
        elif "hand-in" not in cell.tags:  # which the build completes
            cells.append(cell.source)
    if not (folder / mutant.program).exists():
        raise ValueError(f"{mutant.place}: the lesson does not write {mutant.program}")
    try:
        chosen = part(cells, mutant.launch, mutant.before)
    except ValueError as error:
        raise ValueError(f"{mutant.place}: {error}") from None
    (folder / "cells.json").write_text(json.dumps(around(chosen, mutant.lesson, folder)))
    cells_in_turn = ROOT / "tests" / "programs" / "cells_in_turn.py"
    # They share a forkserver. A copy of the repository has one of its own, which ends with pytest.
    return run([sys.executable, cells_in_turn, "cells.json"], folder, TORCHRUN_FOR=str(os.getpid()))


def by_test(mutant: Mutant, folder: Path) -> tuple[int, str]:
    """Run one test in a copy of the repository that holds the changed program."""
    for name in ("scripts", "tests"):
        rubbish = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=rubbish)
    for name in ("notebooks", "assets", "README.md", "kaggle-metadata.json", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    paths = list((folder / "scripts" / "lessons").glob(f"*/{mutant.program}"))
    if not paths:
        raise ValueError(f"{mutant.place}: no room holds {mutant.program}")
    paths[0].write_text(broken(paths[0].read_text(), mutant))
    node = f"tests/lessons/{mutant.test}"
    # Folders of its own: those of pytest are shared, and two runs that tidy them up collide.
    apart = ["-p", "no:cacheprovider", "--basetemp", folder / "temporary"]
    # With CI set, the copy does not ask what was green before.
    command = [sys.executable, "-m", "pytest", "-q", "-x", *apart, node]
    return run(command, folder, CI="true", PYTHONPATH=str(folder / "scripts"))


def verdict(code: int, text: str) -> str:
    """ "" when an assert or a check noticed the mutant, else what happened instead."""
    if code == -1:
        return f"no end within {LIMIT} s"
    if ASSERT.search(text) and code:
        return ""
    if REJECTED.search(text):
        return ""
    return "not noticed" if code == 0 else f"exit code {code}, but by no assert and no check"


def trial(mutant: Mutant) -> Finding:
    """Break it once, and look who notices."""
    text = ""
    try:
        with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
            if mutant.test:
                code, text = by_test(mutant, Path(folder))
            else:
                code, text = by_launch(mutant, Path(folder))
        problem = verdict(code, text)
    except ValueError as error:  # the mutant names what is not there; others are still tried
        problem = str(error)
    return Finding(problem, text)


def sound(mutant: Mutant) -> str:
    """ "" when the same launch or test is green with the program as it is; else what it says."""
    try:
        with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
            if mutant.test:
                code, text = by_test(mutant._replace(new=mutant.old), Path(folder))
            else:
                code, text = by_launch(mutant, Path(folder), whole=True)
    except ValueError:  # a mistake in the mutant, which its trial tells
        return ""
    if code == 0 and not REJECTED.search(text):
        return ""
    return f"{mutant.judge} is red without any mutant:\n{text[-3000:]}"


@functools.cache
def the_course() -> Course:
    return Course(ROOT)


MARK = re.compile(r"^@pytest\.mark\.\w+\n", re.MULTILINE)  # says when a test runs, and not how
IMPORTS = (ast.Import, ast.ImportFrom)


def imported(part: ast.Import | ast.ImportFrom) -> set[str]:
    """The names that an import gives."""
    return {alias.asname or alias.name.partition(".")[0] for alias in part.names}


def of_tools(part: ast.Import | ast.ImportFrom) -> bool:
    """Whether an import is of the course's tools, whose place does not count."""
    return f"{getattr(part, 'module', '')}.".startswith("course.")


@functools.cache
def judging(node: str) -> str:
    """What runs of a test that judges mutants: its file without the other tests, and its name.

    `node` is as in the data, such as test_05_….py::test_x[2].
    """
    file, _, name = node.partition("[")[0].partition("::")
    path = ROOT / "tests" / "lessons" / file
    text = path.read_text() if path.exists() else ""
    lines = text.splitlines()
    kept = []
    imports = []
    for part in ast.parse(text).body:
        called = getattr(part, "name", "")
        if called == name or not called.startswith("test_"):
            decorators = [each.lineno for each in getattr(part, "decorator_list", [])]
            first = min([part.lineno, *decorators])
            piece = "\n".join(lines[first - 1 : part.end_lineno])
            if isinstance(part, IMPORTS):
                names = imported(part)
                imports.append((f"tools: {sorted(names)}" if of_tools(part) else piece, names))
            else:
                kept.append(MARK.sub("", piece))
    judge = same.code("\n".join(kept)).replace(f"def {name}(", "def judge(", 1)
    words = set(re.findall(r"\w+", judge))
    needed = sorted(piece for piece, names in imports if names & words)
    return "\n".join([*needed, judge])


def fingerprint(lesson: str) -> str:
    """A hash of all on which a lesson's mutants rest: code cells, programs, mutants, judges.

    Of the shared programs those that it writes: no other can be in its notebook's folder. Not of
    prose and comments, which no mutant can see, nor of what mutants and tests are called, nor of
    the programs that only watch, unless a mutant changes them.
    """
    source = the_course().sources[ROOT / "notebooks" / "src" / f"{lesson}.md"]
    lesson_cells = Lesson.of(source).code
    cells = [same.cell(cell.source) for cell in lesson_cells if not cell.files]
    programs = ROOT / "scripts" / "lessons"
    paths = [programs / "common" / name for name in Lesson.of(source).files]
    paths += (programs / lesson).glob("*")  # a new lesson has no room yet
    them, _ = readable([lesson])
    unseen = WATCHERS - {mutant.program for mutant in them}
    paths = [path for path in paths if path.name not in unseen]
    paths = sorted(paths, key=lambda path: path.name)  # a program may move to `common`
    rows = []
    for mutant in them:
        judge = judging(mutant.test) if mutant.test else mutant.launch
        rows.append([mutant.program, mutant.old, mutant.new, judge, mutant.before])
    quick = about(source).get("quick", {})
    return same.digest(cells, quick, [same.file(path) for path in paths if path.is_file()], rows)


def recorded(lesson: str) -> bool:
    """Whether all mutants of a lesson were noticed while it was what it is now."""
    green = json.loads(GREEN.read_text()) if GREEN.exists() else {}
    return green.get(lesson) == fingerprint(lesson)


def drawn(count: int = 3) -> list[Mutant]:
    """Some mutants of all: which ones, the hash of all sources decides."""
    every, _ = readable(lessons())
    salt = [fingerprint(lesson) for lesson in lessons()]
    return sorted(every, key=lambda each: same.digest(salt, each.lesson, each.why))[:count]


def named(mutant: Mutant) -> str:
    """A mutant's name in a list of tests, which begins with its lesson's."""
    return f"{mutant.lesson} {mutant.program}: {mutant.why}"


class Record:
    """A plugin of pytest: how many tests of each lesson passed, and which took long."""

    def __init__(self):
        self.passed: Counter = Counter()
        self.slow: list[str] = []

    def pytest_runtest_logreport(self, report) -> None:
        _, _, name = report.nodeid.partition("[")
        if report.when == "call" and report.passed:
            self.passed[name.split()[0]] += 1
            if report.duration > SECONDS:
                self.slow.append(f"{report.duration:5.1f} s  {name.removesuffix(']')}")


def note(names: list[str], passed: Counter) -> None:
    """Write down the lessons of which every judge was green, and every mutant noticed."""
    green = json.loads(GREEN.read_text()) if GREEN.exists() else {}
    for name in names:
        own = mutants(name)
        if passed[name] == len(own) + len({mutant.judge for mutant in own}):
            green[name] = fingerprint(name)
    GREEN.write_text(json.dumps(green, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lessons", nargs="*", help="numbers; none: all")
    parser.add_argument("--green", action="store_true", help="note which lessons were all green")
    args = parser.parse_args()
    names = [name for name in lessons() if not args.lessons or name[:2] in args.lessons]
    if not names:
        parser.error(f"no lesson is called {' or '.join(args.lessons)}: write numbers, as 06 09")
    _, wrong = readable(names)
    if wrong:
        print("\n".join(wrong.values()))
        return 1
    record = Record()
    tests = ROOT / "tests" / "campaigns" / "test_mutants.py"
    options = ["-q", "-n", "auto", "-m", "thorough", "-k", " or ".join(names)]
    # The build has imported what pytest would rather import itself.
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    code = pytest.main([*options, str(tests)], plugins=[record])
    for line in record.slow:
        print(f"over {SECONDS} s: {line}")
    if args.green:
        note(names, record.passed)
    return 1 if code else 0


if __name__ == "__main__":
    sys.exit(main())
