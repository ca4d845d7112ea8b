"""Programs that compute something else are noticed: three mutants of all, drawn by the sources.

`make mutants` tries every one, and notes for each lesson of which programs that was true. Here the
notes must belong to the programs of today.
"""

import mutants
import pytest
from mutants import Mutant, fingerprint, named
from slices import lessons

EVERY, _ = mutants.readable(lessons())
JUDGES = {(mutant.lesson, mutant.judge): mutant for mutant in EVERY}
WORDS = Mutant("02_autograd", "why", "x.py", "a + b", "a - b", launch="x")


def noticed(mutant: Mutant) -> None:
    finding = mutants.trial(mutant)
    assert not finding.problem, f"{finding.problem}\n{finding.text[-3000:]}"


@pytest.mark.rests_on(by=lambda mutant: fingerprint(mutant.lesson))
@pytest.mark.parametrize("mutant", mutants.drawn(), ids=named)
def test_a_program_that_computes_something_else_is_noticed(mutant: Mutant) -> None:
    noticed(mutant)


@pytest.mark.thorough
@pytest.mark.parametrize("mutant", EVERY, ids=named)
def test_every_program_that_computes_something_else_is_noticed(mutant: Mutant) -> None:
    noticed(mutant)


@pytest.mark.thorough
@pytest.mark.parametrize("judge", JUDGES, ids=" ".join)
def test_a_judge_is_green_without_any_mutant(judge: tuple[str, str]) -> None:
    assert mutants.sound(JUDGES[judge]) == ""


@pytest.mark.quick
@pytest.mark.parametrize("lesson", lessons())
def test_all_mutants_were_noticed_with_the_programs_of_today(lesson: str) -> None:
    command = f'make mutants LESSONS="{lesson[:2]}"'
    assert mutants.recorded(lesson), f"its programs or mutants have changed: {command}"


@pytest.mark.quick
@pytest.mark.parametrize("lesson", lessons())
def test_every_mutant_changes_one_line_that_is_there(lesson: str) -> None:
    for mutant in mutants.mutants(lesson):
        text = mutants.the_course().program(mutant.program, True, mutant.place)
        changed = mutants.broken(text, mutant)
        pairs = zip(text.split("\n"), changed.split("\n"), strict=True)
        assert sum(old != new for old, new in pairs) == 1, mutant.why


@pytest.mark.quick
def test_a_lesson_without_mutants_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(mutants, "DATA", mutants.DATA / "nowhere")
    with pytest.raises(ValueError, match=r"every lesson has mutants \(the format is at"):
        mutants.mutants("02_autograd")
    assert mutants.drawn() == []  # and the tests of other lessons are still collected


@pytest.mark.quick
@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"launch": "pass", "test": ""}, "no cell launches pass.py"),
        ({"launch": "pass", "test": "", "program": "pass.py"}, "the lesson does not write pass.py"),
        ({"launch": "", "test": "x", "program": "pass.py"}, "no room holds pass.py"),
        ({"launch": "pass", "test": "", "old": "a\nb"}, "“a\nb” occurs 0 times in"),
    ],
)
def test_a_mutant_of_what_is_not_there_says_where_it_is_written(wrong: dict, problem: str) -> None:
    mutant = mutants.mutants("05_collectives")[0]._replace(**wrong)
    place = f"tests/lessons/mutants/05_collectives.toml, “{mutant.why}”: "
    assert mutants.trial(mutant).problem.startswith(place + problem)
    assert mutants.sound(mutant) == ""


def test_a_line_that_is_not_there_once_is_refused() -> None:
    assert mutants.broken("c = a + b", WORDS) == "c = a - b"
    for text in ("", "a + b\na + b"):
        with pytest.raises(ValueError, match="occurs"):
            mutants.broken(text, WORDS)


@pytest.mark.parametrize(
    ("code", "text", "problem"),
    [
        (1, "AssertionError: the gap is 0.1", ""),
        (1, "E       assert 3 == 4", ""),
        (1, "[rank1]: AssertionError", ""),
        (0, "✗ not the mean", ""),
        (0, "waves by rank: [True, True] – not yet", ""),
        (0, "AssertionError is a word of this text", "not noticed"),
        (0, "all fine", "not noticed"),
        (1, "RuntimeError: shapes", "exit code 1, but by no assert and no check"),
        (-1, "", "no end within"),
    ],
)
def test_the_judge_can_tell(code: int, text: str, problem: str) -> None:
    verdict = mutants.verdict(code, text)
    assert verdict.startswith(problem) and bool(verdict) == bool(problem)


def test_the_part_of_a_notebook_is_what_the_launch_rests_on() -> None:
    cells = [
        "N = 3",
        "M = 4",
        "from launch import result",
        "!torchrun --nproc-per-node=2 a.py",
        'a = result("a")["x"]',
        "!torchrun --nproc-per-node=2 b.py --n {N}",
        'b = result("b")',
        "assert b == a",
        "!torchrun --nproc-per-node=2 c.py",
        'result("c")',
    ]
    assert mutants.part(cells, "b") == [cells[0], *cells[2:8]]
    assert mutants.part(cells, "c", ("b",)) == [cells[0], cells[2], cells[5], *cells[8:]]
    with pytest.raises(ValueError, match=r"no cell launches d\.py"):
        mutants.part(cells, "d")


@pytest.mark.quick
def test_a_launch_that_reads_pictures_rests_on_the_cell_that_makes_them() -> None:
    made = "!torchrun --nproc-per-node=1 cifar10.py"
    for program, needs in [("indices", [made]), ("ddp", [made]), ("hello", [])]:
        launched = [f"!torchrun --nproc-per-node=2 {program}.py", f'result("{program}")']
        cells = ["from launch import result", made, *launched]
        assert mutants.part(cells, program) == [cells[0], *needs, *launched]


@pytest.mark.quick
def test_a_launch_rests_on_the_settings_that_its_ranks_inherit() -> None:
    setting = 'os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"'
    undone = 'del os.environ["TORCH_LOGS"]'
    cells = ["from launch import result", setting, undone, "os.getcwd()", "!torchrun a.py"]
    assert mutants.part(cells, "a") == [*cells[:3], cells[4]]


LESSON_02 = "02_autograd"
JUDGE = "test_two_calls_add_up_as_in_torch"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("file", "old", "new", "matters"),
    [
        ("scalar.py", "self.data * other.data", "self.data + other.data", True),
        ("launch.py", "code == -2", "code == -3", False),
        ("test_02_autograd.py", "d * a + d * (b + c)", "d * a", True),
        ("02_autograd.toml", "\nnew = ", "\nnew = ' ' #", True),
        ("scalar.py", '"""', '"""More words. ', False),
        ("test_02_autograd.py", "twice by the same operation", "two times", False),
        ("test_02_autograd.py", "def test_parents", "def test_elders", False),
        ("02_autograd.toml", "\nwhy = ", "\nwhy = 'a new name' #", False),
        ("test_common_devices.py", "assert", "assert not", False),
        ("amp.py", "return", "return 1 +", False),
    ],
)
def test_a_lesson_is_tried_again_when_what_runs_changes(
    monkeypatch, file: str, old: str, new: str, matters: bool
) -> None:
    before = mutants.fingerprint(LESSON_02)
    read = mutants.Path.read_text

    def changed(path: mutants.Path, **how) -> str:
        text = read(path, **how)
        if path.name != file:
            return text
        assert old in text, "the change is one"
        return text.replace(old, new, 1)

    monkeypatch.setattr(mutants.Path, "read_text", changed)
    mutants.judging.cache_clear()
    after = mutants.fingerprint(LESSON_02)
    mutants.judging.cache_clear()
    assert (after != before) == matters


@pytest.mark.quick
def test_a_test_that_judges_may_have_another_name(monkeypatch) -> None:
    before = mutants.fingerprint(LESSON_02)
    read = mutants.Path.read_text
    names = (JUDGE, "test_both_calls_add_up")
    monkeypatch.setattr(mutants.Path, "read_text", lambda path: read(path).replace(*names))
    assert mutants.fingerprint(LESSON_02) == before
