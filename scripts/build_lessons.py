"""What every lesson has: an opening, parameters that tests make small, and two exercises."""

import re
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

import publish_list
from build_course import Course
from build_grammar import about, demand, tags
from build_python import names, parsed

EXERCISE = re.compile(r"### Exercise (\d+) · 練習 \1")
LEAST = 2


class Opening(NamedTuple):
    """What a lesson says under its title, in Markdown."""

    sentence: str
    sentence_chinese: str
    goal: str
    goal_chinese: str


def opening(course: Course, path: Path) -> Opening:
    """The first four paragraphs of a lesson: what it is about, and what one can do afterwards."""
    source = course.sources[path].cells[0].source
    blocks = [" ".join(block.split()) for block in re.split(r"\n\s*\n", source)]
    told = blocks[3:5]
    right = len(told) == 2 and told[0].startswith("Afterwards") and told[1].startswith("學完之後")
    remedy = (
        "its first cell has a title, a sentence in each language, “Afterwards …” and “學完之後…”."
    )
    demand(right, course.name(path), remedy)
    return Opening(*blocks[1:5])


def check_quick(course: Course, path: Path) -> None:
    """Each small parameter that tests use takes the place of one of the parameters cell."""
    place = course.name(path)
    known: set[str] = set()
    for cell in course.sources[path].cells:
        if "parameters" in tags(cell):
            known |= names(parsed(cell.source, place), defined=True)
    quick = about(course.sources[path]).get("quick", {})
    unknown = ", ".join(name for name in quick if name not in known)
    demand(not unknown, place, f"`quick` names {unknown}, which the parameters cell does not set.")


def exercises(cells: list[NotebookNode]) -> set[str]:
    """The headings of exercises that have a code cell below."""
    heading = ""
    headings: set[str] = set()
    for cell in cells:
        if cell.cell_type == "markdown":
            heading = [heading, *re.findall("^#+ .*", cell.source, re.MULTILINE)][-1]
        elif EXERCISE.fullmatch(heading) and "class" not in tags(cell):
            headings.add(heading)
    return headings


def check_exercises(course: Course, path: Path) -> None:
    """A lesson has at least two exercises."""
    count = len(exercises(course.sources[path].cells))
    exercise = "exercise" if count == 1 else "exercises"
    remedy = f"at least {LEAST} wanted, each under its own heading `### Exercise N · 練習 N`."
    demand(count >= LEAST, course.name(path), f"{count} {exercise}, {remedy}")


def check_gpu(course: Course, path: Path) -> None:
    """A lesson says how many minutes of two GPUs it takes; Kaggle gives it some if it takes any."""
    place = course.name(path)
    minutes = about(course.sources[path]).get("gpu_minutes")
    remedy = "give `gpu_minutes` in the front matter: those of a whole run on Kaggle, or 0."
    demand(isinstance(minutes, int) and minutes >= 0, place, remedy)
    for kernel in course.listed["kernels"]:
        listed = kernel["code_file"] in (
            f"notebooks/{path.stem}.ipynb",
            f"notebooks/solutions/{path.stem}.ipynb",
        )
        problem = (
            f"`gpu_minutes` is {minutes}, and {publish_list.NAME} gives {kernel['code_file']} "
        )
        problem += "a GPU" if kernel["enable_gpu"] else "no GPU"
        demand(
            not listed or kernel["enable_gpu"] == (minutes > 0),
            place,
            f"{problem}: correct one of them.",
        )


def check_lessons(course: Course) -> None:
    """Check what no cell can know by itself."""
    for path in course.sources:
        opening(course, path)
        check_quick(course, path)
        check_gpu(course, path)
        check_exercises(course, path)
