"""What the build checks in exercises and adds to them: where to write, and the line to hand in.

A cell tagged `hand-in` says `handin.line()`; it is given the notebook's checks: the cells below an
exercise's heading that print ✓ or ✗. A check is known by its end, below what the learner writes:
the number of these lines, and a digest of them.
"""

import re
from pathlib import Path

from course.build.python import names
from course.launches import parsed
from course.lesson import WORKSHOP, Cell, Lesson, Section, about, demand
from course.listed import NAME
from course.sources import Course

LEAST = 2  # exercises
CALL = "handin.line()"
MISSING = "  # missing? First run the folded cell (it needs bash)"


# ---- what every lesson has


def check_quick(course: Course, path: Path) -> None:
    """Each small parameter that tests use takes the place of one of the parameters cell."""
    place = course.name(path)
    tagged = Lesson.of(course.sources[path]).tagged("parameters")
    remedy = "papermill takes the first: write one cell tagged `parameters`."
    demand(len(tagged) == 1, place, f"{len(tagged)} cells are tagged `parameters`; {remedy}")
    known = names(parsed(tagged[0].source, place), defined=True)
    quick = about(course.sources[path]).get("quick", {})
    unknown = ", ".join(name for name in quick if name not in known)
    demand(not unknown, place, f"`quick` names {unknown}, which the parameters cell does not set.")


def check_exercises(course: Course, path: Path) -> None:
    """A lesson has at least two exercises, with a code cell below each heading."""
    sections = Lesson.of(course.sources[path]).own.sections
    count = len({section.exercise for section in sections if section.exercise and section.code})
    exercise = "exercise" if count == 1 else "exercises"
    remedy = f"at least {LEAST} wanted, each under its own heading `### Exercise N · 練習 N`."
    demand(count >= LEAST, course.name(path), f"{count} {exercise}, {remedy}")


def check_gpu(course: Course, path: Path) -> None:
    """A lesson says how many minutes of two GPUs it takes; Kaggle gives it some if it takes any."""
    place = course.name(path)
    minutes = about(course.sources[path]).get("gpu_minutes")
    remedy = "give `gpu_minutes` in the front matter: those of a whole run on Kaggle, or 0."
    demand(isinstance(minutes, int) and minutes >= 0, place, remedy)
    files = (f"notebooks/{path.stem}.ipynb", f"notebooks/solutions/{path.stem}.ipynb")
    for kernel in course.listed["kernels"]:
        agrees = kernel["enable_gpu"] == (minutes > 0)
        given = "a GPU" if kernel["enable_gpu"] else "no GPU"
        problem = f"`gpu_minutes` is {minutes}, and {NAME} gives {kernel['code_file']} {given}"
        fine = kernel["code_file"] not in files or agrees
        demand(fine, place, f"{problem}: correct one of them.")


def check_lessons(course: Course) -> None:
    """Check what no cell can know by itself."""
    for path in course.sources:
        course.opening(path)
        check_quick(course, path)
        check_gpu(course, path)
        check_exercises(course, path)


# ---- where to write


def pointer(cell: Cell, later: str) -> str:
    """In which lines of the program below to write; `later`: the exercise that will ask for it."""
    name = cell.file
    numbers = cell.regions
    english = f"line{'s' * (len(numbers) > 1)} {' and '.join(map(str, numbers))}"
    chinese = "、".join(map(str, numbers))
    if later:
        return (
            f"\n\nFirst run the cell below, `{name}`, as it is: Exercise {later}, further down, "
            f"will ask you to write in its {english}, after ▼▼▼."
            f"\n\n先照原樣執行下面這一格 `{name}`："
            f"後面的練習 {later} 會請你寫在第 {chinese} 行，▼▼▼ 之後。"
        )
    return (
        f"\n\nYour code goes into the cell below, `{name}`: {english}, after ▼▼▼."
        f"\n\n請寫在下面這一格 `{name}` 的第 {chinese} 行，▼▼▼ 之後。"
    )


def point_out(lesson: Lesson) -> None:
    """Where a program has an exercise, the text above it says in which lines of the cell."""
    sections = lesson.sections
    for number, section in enumerate(sections):
        above = None
        for cell in section.cells:
            if not cell.is_code:
                above = cell
            elif cell.files:
                if cell.file and cell.regions and above:
                    later = "" if section.exercise else asking(sections[number:], cell.file)
                    above.source += pointer(cell, later)
                above = None


def asking(sections: list[Section], program: str) -> str:
    """The number of the first exercise in these sections that names the program; of the first one,
    if none does; "" if there is no exercise.
    """
    exercises = [section for section in sections if section.exercise]
    naming = [each for each in exercises if any(program in cell.source for cell in each.cells)]
    return next((each.exercise for each in [*naming, *exercises]), "")


# ---- what a notebook imports


def explain(lesson: Lesson) -> None:
    """Where a lesson first imports one of its files, say what helps if it is not there."""
    modules = "|".join(Path(name).stem for name in lesson.files if name.endswith(".py"))
    importing = re.compile(rf"^((?:import|from) (?:{modules})\b.*)$", re.MULTILINE)
    for cell in lesson.code:
        if not cell.files and importing.search(cell.source):
            cell.source = importing.sub(rf"\1{MISSING}", cell.source, count=1)
            return


# ---- what to hand in


def checks(lesson: Lesson, name: str) -> dict[str, list[str]]:
    """The checks of each exercise."""
    endings: dict[str, list[str]] = {}
    known: set[str] = set()
    for cell, exercise in lesson.checks(numbered=name != WORKSHOP):
        demand(cell.ending not in known, cell.place, "another check ends with the same lines.")
        known.add(cell.ending)
        endings.setdefault(exercise, []).append(cell.ending)
    return endings


def fill_hand_in(lesson: Lesson, name: str) -> None:
    """Give the cell tagged `hand-in` the name of its notebook and the notebook's checks."""
    for cell in lesson.tagged("hand-in"):
        demand(cell.source == CALL, cell.place, f"a cell tagged `hand-in` says `{CALL}`.")
        rows = [f'    "{n}": {list(each)},' for n, each in checks(lesson, name).items()]
        inside = "\n".join(["{", *rows, "}"]).replace("'", '"')
        cell.source = f'handin.line("{name}", {inside})'


# ---- all of it


def decorate(lesson: Lesson, name: str) -> None:
    """Add to the notebook of this name what no source says: its cells come from one."""
    point_out(lesson)
    fill_hand_in(lesson, name)
    explain(lesson)
