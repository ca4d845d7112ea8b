"""Tempting wrong answers get a ✗, right ones written differently a ✓; verdicts follow their input.

The answers are data beside the lessons' tests: answers/NN_name.toml; answers.py tells how.
"""

import answers
import green
import pytest
from answers import Trial
from slices import lessons


def made_of(lesson: str) -> list:
    """What decides how a lesson's answers are judged: its cells, its programs, the answers."""
    them = answers.cells(lesson)
    ran = [[green.cell(each.written), green.cell(each.solved), each.tags] for each in them]
    held = [answers.COURSE.programs.get(name) for each in them for name in each.files]
    programs = [green.cell(path.read_text()) for path in held if path]
    judge = green.runs(answers.ROOT / "tests" / "lessons" / "answers.py")
    return [ran, programs, list(answers.exercises(them)), answers.data(lesson), judge]


@pytest.mark.rests_on(by=made_of)
@pytest.mark.parametrize("lesson", lessons())
def test_answers_and_verdicts_are_judged_as_they_should_be(lesson: str) -> None:
    problems = {name: text for name, text in answers.judge(lesson).items() if text}
    assert not problems, "\n".join(f"{name}: {text}" for name, text in problems.items())


@pytest.mark.quick
@pytest.mark.parametrize("lesson", lessons())
def test_every_exercise_has_answers_and_every_verdict_opposite_inputs(lesson: str) -> None:
    assert answers.incomplete(lesson) == []


@pytest.mark.quick
@pytest.mark.parametrize("kind", ["answers", "mutants"])
def test_no_file_is_left_of_a_lesson_that_is_gone(kind: str) -> None:
    there = {path.stem for path in (answers.DATA.parent / kind).glob("*.toml")}
    assert there <= set(answers.lessons()), "delete what belongs to no lesson"


@pytest.mark.quick
def test_a_lesson_without_answers_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(answers, "DATA", answers.DATA / "nowhere")
    with pytest.raises(ValueError, match=r"every lesson has answers \(the format is at"):
        answers.data("02_autograd")


@pytest.mark.parametrize(
    ("kind", "text", "error", "problem"),
    [
        ("wrong", "✗ not yet", "", ""),
        ("wrong", "✓", "", "gets no ✗"),
        ("wrong", "✗ not yet", "NameError: x", "stops with NameError"),
        ("right", "✓ and on", "", ""),
        ("right", "✓ one\n✗ not yet", "", "gets no ✓"),
        ("right", "", "", "gets no ✓"),
    ],
)
def test_the_judge_can_tell(kind: str, text: str, error: str, problem: str) -> None:
    outcome = {"text": text, "titles": [], "error": error}
    [said] = answers.judged([Trial("x", 0, {}, [], kind)], [outcome]).values()
    assert said.startswith(problem) and bool(said) == bool(problem)


def test_a_verdict_that_says_the_same_of_both_is_refused() -> None:
    pair = [Trial("x", 0, {}, [], "one"), Trial("x", 0, {}, [], "other")]
    fast = {"text": "faster", "titles": [], "error": ""}
    slow = {"text": "", "titles": ["slower"], "error": ""}
    assert answers.judged(pair, [fast, slow])["x"] == ""
    assert answers.judged(pair, [fast, fast])["x"].startswith("says the same of both")


def test_an_answer_takes_the_place_of_the_solution() -> None:
    cell = "def f(x):\n    # BEGIN SOLUTION\n    return x\n    # STUB return 0\n    # END SOLUTION"
    assert answers.with_answer(cell, ["y = x\nreturn y"]) == "def f(x):\n    y = x\n    return y"
    assert answers.regions(cell, stub=True) == ["    return 0"]
    with pytest.raises(ValueError, match="more than solutions"):
        answers.with_answer(cell, ["1", "2"])
