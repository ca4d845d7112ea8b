"""Grading without a sandbox: every lesson's regions, found in what students hand in."""

import ast
from pathlib import Path

import nbformat
import pytest

from grade_lessons import Lesson, load
from grade_match import UNREADABLE, answers, extract
from grade_notebook import Step, filled, steps
from grade_read import Cell

ROOT = Path(__file__).resolve().parents[2]
LESSONS = {lesson.name: lesson for lesson in load(ROOT)}
KIND = ("%%", "!", "%")  # how a cell begins that is no Python

pytestmark = pytest.mark.quick


def solved(lesson: Lesson) -> list[Cell]:
    """The code cells of the published solution."""
    path = ROOT / "notebooks" / "solutions" / f"{lesson.name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    return [Cell(cell.id, cell.source) for cell in notebook.cells if cell.cell_type == "code"]


def whole(lesson: Lesson, number: int, found: dict) -> str:
    """A cell of ours with a student's regions, its check with it."""
    place = lesson.places[number]
    return filled(place, found[number], place.fixed[-1]).strip()


def test_every_lesson_and_the_workshop_can_be_graded():
    there = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert there == LESSONS.keys()
    assert len({lesson.title for lesson in LESSONS.values()}) == len(LESSONS)
    assert all(lesson.title and lesson.source for lesson in LESSONS.values())


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("name", LESSONS)
def test_put_into_our_notebook_a_solution_becomes_the_solved_one(name: str, ids: bool):
    lesson = LESSONS[name]
    cells = solved(lesson)
    texts = {cell.text.strip() for cell in cells}
    handed_in = cells if ids else [Cell("", cell.text) for cell in reversed(cells)]
    found = answers(lesson, handed_in)
    for number in lesson.places:
        assert not found[number].note
        assert whole(lesson, number, found) in texts


def said(regions: list[list[str]]) -> list[str]:
    """The lines of all regions, without empty ones."""
    return [line for region in regions for line in region if line.strip()]


@pytest.mark.parametrize("name", LESSONS)
def test_with_the_mark_left_and_lines_added_below_an_answer_is_the_same(name: str):
    lesson = LESSONS[name]
    plain = answers(lesson, solved(lesson))
    cells = []
    for number, place in lesson.places.items():
        lines = list(place.fixed[0])
        filling = zip(place.stubs, plain[number].regions, place.fixed[1:], strict=True)
        for stub, region, following in filling:
            lines += [stub[0], *region, "", *following]
        more = ["", 'print("my own line")'] if place.fixed[-1] else []
        cells.append(Cell("", "\r\n".join([*lines, *more])))
    found = answers(lesson, cells)
    for number in lesson.places:
        assert said(found[number].regions) == said(plain[number].regions)


@pytest.mark.parametrize("name", LESSONS)
def test_an_answer_and_its_check_can_stand_in_cells_of_their_own(name: str):
    lesson = LESSONS[name]
    made = steps(lesson, answers(lesson, solved(lesson)))
    for step in made:
        if not step.code.startswith(KIND):
            ast.parse("\n".join(line for line in step.code.split("\n") if line[:1] not in "!%"))
    judges = {number for cells in lesson.checks.values() for number in cells}
    assert {step.number for step in made if step.check} == judges
    assert all("✗ not yet" in step.code for step in made if step.check)
    for before, step in zip([Step("", 0), *made], made, strict=False):
        assert not step.check or "restore()" in before.code


@pytest.mark.parametrize("name", LESSONS)
def test_our_own_names_hide_none_of_python(name: str):
    import builtins

    for cell in LESSONS[name].cells:
        if cell.cell_type == "code" and not cell.source.startswith(KIND):
            for node in ast.walk(ast.parse(cell.source)):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    assert not hasattr(builtins, node.id) or node.id == "_"


def test_a_program_without_our_lines_cannot_be_read():
    lesson = LESSONS["00_start_here"]
    [place] = [place for place in lesson.places.values() if place.program]
    text = f"%%writefile {place.program}\nprint('all my own')"
    assert extract(place, text).note == UNREADABLE


def test_a_cell_without_our_lines_is_taken_whole():
    lesson = LESSONS["01_tensors"]
    place = next(iter(lesson.places.values()))
    answer = extract(place, "strides = {'y': (6, 1)}\nprint('✓')")
    assert answer.regions == [["strides = {'y': (6, 1)}", "print('✓')"]]
    assert not answer.head
    assert not answer.tail
    assert answer.note
