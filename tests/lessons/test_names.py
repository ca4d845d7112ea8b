"""Exercises: each has a check, which can be run again after the whole lesson has been run."""

import re
from pathlib import Path

import pytest
from slices import defined, parsed, used
from whole import ROOT, SOLVED, sections, sources

from course.lesson import Lesson

pytestmark = pytest.mark.quick


def clashes(exercise: list[str], later: list[str]) -> set[str]:
    """The names that an exercise takes from before it, and that later cells give another meaning.

    A later cell that only brings up to date what it reads itself (`seen = seen + …`) counts, too.
    """
    here = [cell for cell in exercise if not cell.startswith("%%")]  # no programs
    wanted: set[str] = set()
    own: set[str] = set()
    for cell in here:
        code = parsed(cell)
        wanted |= used(code) - own
        own |= defined(code)
    others = [cell for cell in later if not cell.startswith("%%")]
    return {name for cell in others for name in wanted & defined(parsed(cell))}


@pytest.mark.parametrize("path", SOLVED, ids=lambda path: path.stem)
def test_no_later_cell_takes_a_name_from_an_exercise(path: Path) -> None:
    solved = sections(path)
    stubs = sections(ROOT / "notebooks" / path.name)
    headings = list(stubs)
    for number, heading in enumerate(headings):
        if sources(solved[heading]) == sources(stubs[heading]):
            continue
        earlier = {source for name in headings[:number] for source in sources(stubs[name])}
        # The same cell once more gives a name the same meaning.
        later = [
            source
            for name in headings[number + 1 :]
            for source in sources(stubs[name])
            if source not in earlier
        ]
        found = clashes(sources(stubs[heading]), later)
        assert not found, f"{path.stem}, {heading}: a later cell has another {sorted(found)}"


@pytest.mark.parametrize(
    ("later", "found"),
    [
        ("rows = 2", {"rows"}),
        ("for rows in x: pass", {"rows"}),
        ("mine = 2", set()),
        ("print(rows)", set()),
        ("%%writefile rows.py\nrows = 2", set()),
    ],
)
def test_another_meaning_is_noticed(later: str, found: set[str]) -> None:
    exercise = ["mine = sum(rows)", "print(mine)"]
    assert clashes(exercise, [later]) == found


@pytest.mark.parametrize("path", SOLVED, ids=lambda path: path.stem)
def test_the_last_cell_counts_every_exercise(path: Path) -> None:
    unsolved = Lesson.at(ROOT / "notebooks" / path.name)
    named = [section.exercise for section in unsolved.sections if section.exercise]
    [last] = unsolved.tagged("hand-in")
    counted = re.findall(r'^ +"(\d+)":', last.source, re.MULTILINE)
    assert counted and (counted == named or not named)
