"""Answers to the exercises of a lesson, and opposite inputs to its verdicts, each tried once.

Run:  python tests/lessons/answers.py          # a table: how many, and which were judged wrongly
      python tests/lessons/answers.py 06 09    # of two lessons

They are data beside the lesson's tests, tests/lessons/answers/NN_name.toml:

    [[answer]]
    exercise = "Exercise 2"
    why = "the local batch taken for the global one"
    code = "steps = 1600 // 64 * EPOCHS"  # stands in place of the solution
    right = true                          # must get ✓; without this line it must get ✗
    program = "average.py"                # if the solution is in a program, not in a cell

    [[verdict]]
    cell = "two buckets were"             # a piece of one cell, which is tagged `verdict`
    one = "one, two = [1.0, 1.1], [2.0, 2.1]"    # the names that the cell reads
    other = "one, two = [2.0, 2.1], [1.0, 1.1]"  # the two sides swapped: it must say something else

An exercise with several solutions has a list of codes. The lesson's own solution and its stub are
tried with the others: the one must get ✓, the other ✗.
"""

import ast
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import NamedTuple

from slices import Wanted, defined, imports, lessons, parsed, rests_on, used, written_down

from course.forked import around, search_path
from course.launches import launch_of
from course.lesson import SOLUTION, about, assigned, divided
from course.sources import Course

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "lessons" / "answers"
RUNNER = ROOT / "tests" / "programs" / "cells_in_turn.py"
COURSE = Course(ROOT)
LIMIT = 600  # seconds for one lesson
KEYS = {"exercise", "why", "code", "right", "program"}
FORMAT = "(the format is at the top of tests/lessons/answers.py)"


class Cell(NamedTuple):
    """A code cell of a lesson, as it is written and as it is when solved."""

    exercise: str  # "Exercise 2", or ""
    written: str
    solved: str
    tags: list[str]
    files: dict[str, str]  # that it writes, by name


class Trial(NamedTuple):
    """One way to go on at one cell of a lesson, and what must come of it."""

    name: str
    at: int  # number of the first cell
    files: dict[str, str]
    cells: list[str]
    judge: str  # "right", "wrong"; or "one" and "other", which must differ


def source(lesson: str) -> Path:
    return ROOT / "notebooks" / "src" / f"{lesson}.md"


def data(lesson: str) -> dict[str, list[dict]]:
    """The answers and verdicts of one lesson. ValueError names the file and what is wrong."""
    path = DATA / f"{lesson}.toml"
    file = path.relative_to(ROOT)
    read = {"answer": [], "verdict": []} | written_down(path, "answers", FORMAT)
    for number, row in enumerate(read["answer"], 1):
        if not {"exercise", "why", "code"} <= row.keys() <= KEYS:
            raise ValueError(f"{file}, answer {number}: it needs exercise, why and code {FORMAT}")
    for number, row in enumerate(read["verdict"], 1):
        if row.keys() != {"cell", "one", "other"}:
            raise ValueError(f"{file}, verdict {number}: it needs cell, one and other {FORMAT}")
    return read


def cells(lesson: str) -> list[Cell]:
    """The code cells of a lesson, each with the exercise that it belongs to."""
    path = source(lesson)
    quick = about(COURSE.sources[path]).get("quick", {})
    made = []
    for section in COURSE.lesson(path, solved=True).own.sections:
        exercise = f"Exercise {section.exercise}" if section.exercise else ""
        for cell in section.code:
            own = [cell.tags, cell.files]
            if "parameters" in cell.tags:
                made.append(Cell(exercise, "", f"{cell.source}\n{assigned(quick)}", *own))
            else:
                made.append(Cell(exercise, cell.written, cell.source, *own))
    return made


def exercises(them: list[Cell]) -> dict[str, range]:
    """The headings of exercises → numbers of their code cells."""
    found: dict[str, range] = {}
    for number, cell in enumerate(them):
        if cell.exercise:
            first = found.get(cell.exercise, range(number, number)).start
            found[cell.exercise] = range(first, number + 1)
    return found


def with_answer(text: str, answers: list[str]) -> str:
    """A cell or a program with these answers in place of its solutions, in order of appearance."""
    waiting = list(answers)

    def fill(match) -> str:
        indent = match[0][: len(match[0]) - len(match[0].lstrip(" "))]
        answer = textwrap.dedent(waiting.pop(0)).strip("\n")
        return textwrap.indent(answer, indent) + "\n"

    built = SOLUTION.sub(fill, text)
    if waiting:
        raise ValueError(f"{len(waiting)} answers more than solutions in:\n{text}")
    return built.rstrip("\n")


def regions(text: str, stub: bool) -> list[str]:
    """The solutions that a cell or a program holds, or its stubs."""
    parts = []
    for match in SOLUTION.finditer(text):
        solution, stubs = divided(match["lines"])
        parts.append("\n".join(stubs if stub else solution))
    return parts


def earlier(them: list[Cell], program: str) -> list[Cell]:
    """Where an earlier section writes a program, and launches it: its newest cells of each kind."""
    written = []
    launched = []
    for cell in them:
        launch = launch_of(cell.solved)
        if program in cell.files:
            written.append(cell)
        if launch and launch.program == program:
            launched.append(cell)
    return written[-1:] + launched[-1:]


def answer_trials(them: list[Cell], rows: list[dict]) -> list[Trial]:
    """The answers of all exercises, among them the lesson's own and its stub."""
    trials = []
    for name, numbers in exercises(them).items():
        part = [them[number] for number in numbers]
        names = [name for cell in part for name in cell.files]
        named = {row["program"] for row in rows if row["exercise"] == name and "program" in row}
        for program in sorted(named - set(names)):
            part = earlier(them[: numbers.start], program) + part
            names.append(program)
        held = {program: COURSE.programs[program].read_text() for program in names}
        solved = [program for program in held if regions(held[program], False)]
        text = held[solved[0]] if solved else "\n".join(cell.written for cell in part)
        ways = [{"why": "its own solution", "code": regions(text, False), "right": True}]
        ways += [{"why": "its stub", "code": regions(text, True)}]
        ways += [row for row in rows if row["exercise"] == name]
        for row in ways:
            codes = row["code"] if isinstance(row["code"], list) else [row["code"]]
            files = {}
            chosen = []
            left = list(codes)
            for cell in part:
                if solved and solved[0] in cell.files:
                    files[solved[0]] = with_answer(held[solved[0]], codes) + "\n"
                elif cell.files:
                    continue
                elif not solved and SOLUTION.search(cell.written):
                    count = len(SOLUTION.findall(cell.written))
                    chosen.append(with_answer(cell.written, left[:count]))
                    left = left[count:]
                else:
                    chosen.append(cell.solved)
            judge = "right" if row.get("right") else "wrong"
            trials.append(Trial(f"{name}: {row['why']}", numbers.start, files, chosen, judge))
    return trials


def verdict_trials(them: list[Cell], rows: list[dict]) -> list[Trial]:
    """Each verdict with both inputs."""
    trials = []
    for row in rows:
        numbers = [number for number, cell in enumerate(them) if row["cell"] in cell.solved]
        if len(numbers) != 1 or "verdict" not in them[numbers[0]].tags:
            raise ValueError(f"“{row['cell']}” is in {len(numbers)} cells, not in one `verdict`")
        for side in ("one", "other"):
            chosen = [row[side], them[numbers[0]].solved]
            trials.append(Trial(f"verdict “{row['cell']}”", numbers[0], {}, chosen, side))
    return trials


def trials(lesson: str) -> list[Trial]:
    rows = data(lesson)
    them = cells(lesson)
    made = answer_trials(them, rows["answer"])
    return made + verdict_trials(them, rows["verdict"])


def plan(lesson: str, made: list[Trial], folder: Path) -> tuple[list, list[Trial]]:
    """The steps for the runner, and the trials in the order in which it makes them."""
    them = cells(lesson)
    runnable = ["" if cell.files else cell.solved for cell in them]
    needed: set[int] = set()
    for trial in made:
        wanted = Wanted()
        for cell in reversed(trial.cells):
            wanted.take(cell)
        needed |= set(rests_on(runnable[: trial.at], wanted))
    steps: list = imports(runnable)
    order: list[Trial] = []
    for number in range(len(them)):
        here = [trial for trial in made if trial.at == number]
        if here:
            ways = [
                {"files": trial.files, "cells": around(trial.cells, lesson, folder)}
                for trial in here
            ]
            steps.append(ways)
            order += here
        if number in needed:
            following = runnable[number + 1] if number + 1 < len(them) else ""
            both = around([runnable[number], following], lesson, folder)
            steps += both[:-1]
    return steps, order


def write_programs(lesson: str, folder: Path) -> None:
    for cell in cells(lesson):
        for name, text in cell.files.items():
            (folder / name).write_text(f"{text}\n")


def judged(made: list[Trial], outcomes: list[dict]) -> dict[str, str]:
    """Each trial → "" or what is wrong with it."""
    wrong: dict[str, str] = {}
    ones: dict[str, tuple] = {}
    for trial, outcome in zip(made, outcomes, strict=True):
        text = outcome["text"]
        end = text[-1500:]
        shown = (outcome["text"], outcome["titles"])
        problem = ""
        if outcome["error"]:
            problem = f"stops with {outcome['error']}\n{end}"
        elif trial.judge == "wrong" and "✗" not in text:
            problem = f"gets no ✗\n{end}"
        elif trial.judge == "right" and ("✗" in text or "✓" not in text):
            problem = f"gets no ✓, or a ✗\n{end}"
        elif trial.judge == "one":
            ones[trial.name] = shown
        elif trial.judge == "other" and shown == ones.get(trial.name):
            problem = f"says the same of both\n{end}"
        wrong[trial.name if trial.judge != "one" else f"{trial.name}, one"] = problem
    return wrong


def judge(lesson: str) -> dict[str, str]:
    """Try all answers and verdicts of one lesson: each → "" or what is wrong with it."""
    made = trials(lesson)
    with tempfile.TemporaryDirectory(prefix="answers-") as name:
        folder = Path(name)
        write_programs(lesson, folder)
        steps, order = plan(lesson, made, folder)
        (folder / "plan.json").write_text(json.dumps(steps))
        settings = {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "PATH": search_path()}
        # All lessons of one process share a forkserver.
        settings["TORCHRUN_FOR"] = os.environ.get("TORCHRUN_FOR", str(os.getpid()))
        done = subprocess.run(
            [sys.executable, RUNNER, "plan.json"],
            cwd=folder,
            env=os.environ | settings,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT,
        )
        place = folder / "answers.json"
        if done.returncode or not place.exists():
            return {"the cells before": f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"}
        return judged(order, json.loads(place.read_text()))


def incomplete(lesson: str) -> list[str]:
    """What a lesson's data lack: two wrong answers and a right one each, a row for each verdict."""
    rows = data(lesson)
    them = cells(lesson)
    missing = []
    known = exercises(them)
    for name in known:
        own_rows = [row for row in rows["answer"] if row["exercise"] == name]
        right = sum(bool(row.get("right")) for row in own_rows)
        if len(own_rows) - right < 2 or right < 1:
            missing.append(f"{name}: two wrong answers and one right are wanted")
    missing += [
        f"{row['exercise']} is not there" for row in rows["answer"] if row["exercise"] not in known
    ]
    for cell in them:
        known_verdict = any(row["cell"] in cell.solved for row in rows["verdict"])
        if "verdict" in cell.tags and not known_verdict:
            missing.append(f"a verdict without opposite inputs: {cell.solved[:60]}")
    return missing + unread(them, rows["verdict"])


def unread(them: list[Cell], rows: list[dict]) -> list[str]:
    """Names that opposite inputs give, and that neither they nor the verdict's cell read."""
    missing = []
    for row in rows:
        [cell] = [cell for cell in them if row["cell"] in cell.solved]
        for side in ("one", "other"):
            given = parsed(row[side])
            names = [node for node in ast.walk(given) if isinstance(node, ast.Name)]
            read = {node.id for node in names if isinstance(node.ctx, ast.Load)}
            for name in sorted(defined(given) - read - used(parsed(cell.solved))):
                missing.append(f"verdict “{row['cell']}”: its cell does not read {name}")
    return missing


def main() -> int:
    asked = sys.argv[1:]
    chosen = [name for name in lessons() if not asked or name[:2] in asked]
    if not chosen:
        sys.exit(f"answers: no lesson is called {' or '.join(asked)}: write numbers, as 06 09")
    bad = 0
    for lesson in chosen:
        try:
            problems = incomplete(lesson)
            made = trials(lesson)
        except ValueError as error:
            print(f"{lesson}: {error}")
            bad += 1
            continue
        outcome = judge(lesson)
        counts = {kind: sum(t.judge == kind for t in made) for kind in ("wrong", "right", "one")}
        told = f"{counts['wrong']} wrong answers, {counts['right']} right, {counts['one']} verdicts"
        problems += [f"{name}: {problem}" for name, problem in outcome.items() if problem]
        print(f"{lesson}: {told}: {'all judged as they should be' if not problems else ''}")
        for problem in problems:
            print(textwrap.indent(problem, "    "))
        bad += len(problems)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
