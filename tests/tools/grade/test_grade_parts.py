"""Grading without a sandbox: every lesson's regions, found in what students hand in."""

import ast
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest

from course import ROOT
from course.grade.match import CHANGED, UNREADABLE, WHOLE, Answer, answers, extract
from course.grade.notebook import GUARD, Step, steps
from course.grade.read import Workbook, Written, load, read, stubs
from course.outputs import in_language

LESSONS = {lesson.name: lesson for lesson in load(ROOT)}
KIND = ("%%", "!", "%")  # how a cell begins that is no Python

pytestmark = pytest.mark.quick


def solved(lesson: Workbook) -> list[Written]:
    """The code cells of the published solution."""
    path = ROOT / "notebooks" / "solutions" / f"{lesson.name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    return [Written(cell.id, cell.source) for cell in notebook.cells if cell.cell_type == "code"]


def solid(lines: list[str]) -> list[str]:
    """Without empty lines, which mean nothing."""
    return [line.rstrip() for line in lines if line.strip()]


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
    texts = [solid(cell.text.splitlines()) for cell in cells]
    handed_in = cells if ids else [Written("", cell.text) for cell in reversed(cells)]
    found = answers(lesson, handed_in)
    for number, place in lesson.places.items():
        assert not found[number].note
        assert solid([*found[number].lines, *place.check]) in texts


@pytest.mark.parametrize("name", LESSONS)
def test_an_id_that_passed_on_to_another_cell_leads_nobody_astray(name: str):
    """Handed in from the time before its section got one more cell."""
    lesson = LESSONS[name]
    cells = solved(lesson)
    moved = [Written(after.id, cell.text) for cell, after in pairwise([*cells, cells[0]])]
    assert answers(lesson, moved) == answers(lesson, cells)


@pytest.mark.parametrize("name", LESSONS)
def test_with_the_mark_left_and_lines_added_below_an_answer_is_the_same(name: str):
    lesson = LESSONS[name]
    plain = answers(lesson, solved(lesson))
    cells = []
    for number, place in lesson.places.items():
        lines = [*plain[number].lines, *place.check]
        at = len(place.fixed[0])
        more = ["", 'print("my own line")'] if place.check else []
        cells.append(Written("", "\r\n".join([*lines[:at], place.stubs[0][0], *lines[at:], *more])))
    found = answers(lesson, cells)
    for number in lesson.places:
        assert solid(found[number].lines) == solid(plain[number].lines)


@pytest.mark.parametrize("name", LESSONS)
def test_lines_of_ours_that_a_student_changed_are_put_back(name: str):
    lesson = LESSONS[name]
    plain = answers(lesson, solved(lesson))
    for number, place in lesson.places.items():
        at = len(place.fixed[0])
        lines = [
            "changed",
            *plain[number].lines[1:at],
            place.stubs[0][0],
            *plain[number].lines[at:],
        ]
        if at and solid(place.fixed[0][:1]):
            answer = extract(place, "\n".join([*lines, *place.check]))
            assert answer.note == CHANGED
            assert solid(answer.lines) == solid(plain[number].lines)


@pytest.mark.parametrize("name", LESSONS)
def test_an_answer_and_its_check_can_stand_in_cells_of_their_own(name: str):
    lesson = LESSONS[name]
    made = steps(lesson, answers(lesson, solved(lesson)))
    for step in made:
        if not step.code.startswith(KIND):
            ast.parse("\n".join(line for line in step.code.split("\n") if line[:1] not in "!%"))
    assert {step.number for step in made if step.check} == lesson.judges.keys()
    assert all("✗ not yet" in step.code for step in made if step.check)
    for before, step in zip([Step("", 0), *made], made, strict=False):
        assert not step.check or before.code == GUARD


@pytest.mark.parametrize("name", LESSONS)
def test_our_own_names_hide_none_of_python(name: str):
    import builtins

    for cell in LESSONS[name].cells:
        if cell.cell_type == "code" and not cell.source.startswith(KIND):
            for node in ast.walk(ast.parse(cell.source)):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    assert not hasattr(builtins, node.id) or node.id == "_"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_class_notebook_in_one_language_is_known_even_without_metadata(language, tmp_path):
    notebook = nbformat.read(ROOT / "notebooks" / "workshop.ipynb", as_version=4)
    in_language(notebook, language)
    notebook.metadata.clear()
    nbformat.write(notebook, tmp_path / "own.ipynb")
    known = read(tmp_path / "own.ipynb", tmp_path, list(LESSONS.values()))
    assert known.lesson is LESSONS["workshop"]


def test_a_program_without_our_lines_cannot_be_read():
    lesson = LESSONS["00_start_here"]
    [place] = [place for place in lesson.places.values() if place.program]
    text = f"%%writefile {place.program}\nprint('all my own')"
    assert extract(place, text).note == UNREADABLE


def test_a_cell_without_our_lines_is_taken_whole():
    lesson = LESSONS["01_tensors"]
    place = next(iter(lesson.places.values()))
    answer = extract(place, "strides = {'y': (6, 1)}\nprint('✓')")
    assert answer == Answer(["strides = {'y': (6, 1)}", "print('✓')"], WHOLE)


def test_a_check_that_was_copied_into_the_answer_does_not_end_it():
    place = next(iter(LESSONS["01_tensors"].places.values()))
    own = [*place.check, "more = 1"]
    answer = extract(place, "\n".join([*place.fixed[0], *own, *place.check]))
    assert solid(answer.lines) == solid([*place.fixed[0], *own])


def test_a_line_to_hand_in_that_came_with_the_lesson_is_not_the_students(tmp_path: Path):
    notebook = nbformat.read(ROOT / "notebooks" / "00_start_here.ipynb", as_version=4)
    for name, marks in {"ours": "1· 2·", "same": "1· 2·", "own": "1✓ 2·"}.items():
        line = f"00_start_here | {marks} | 0/2 | CPU | 1 min | 2026-01-01 00:00 UTC\n"
        notebook.cells[-1].outputs = [nbformat.v4.new_output("stream", text=line)]
        nbformat.write(notebook, tmp_path / f"{name}.ipynb")
    ours = nbformat.read(tmp_path / "ours.ipynb", as_version=4)
    lesson = Workbook(ours, "ours", stubs(ROOT))
    assert read(tmp_path / "same.ipynb", tmp_path, [lesson]).hand_in == ""
    told = read(tmp_path / "own.ipynb", tmp_path, [lesson]).hand_in
    assert told.startswith("00_start_here | 1✓ 2·")
