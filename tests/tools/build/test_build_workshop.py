"""The workshop, put together from tagged cells of the lessons."""

import nbformat
import pytest
from small_course import ALPHA, DECK, FIRST, PROGRAM, SECOND, Small, code, refused

from course.build.lessons import MISSING
from course.build.programs import length

pytestmark = pytest.mark.quick


def test_the_workshop_takes_each_program_and_parameter_once_in_lesson_order(course: Small):
    lines = [
        "from shutil import which",
        'GPU = which("nvidia-smi") is not None',
        "STEPS = 3 if GPU else 2",
        "SIZE, (FIRST, *REST) = 8, (1, 2, 3)",
    ]
    dials = "\n".join(lines)
    firsts = [cell.source.splitlines()[0] for cell in course.notebook("workshop").cells]
    assert firsts == [
        "%%bash -e",  # launch.py
        "from shutil import which",
        f"from launch import failure, result{MISSING}",
        "%%writefile tools.py",
        "%%writefile finished_tools.py",  # its exercise is open
        "# Behind? Take away the # in the next line, run this cell, and go on with the launch.",
        "%%writefile alpha.py",
        "!torchrun --standalone --nproc-per-node=2 alpha.py --steps {STEPS // 1}",
        'alpha = result("alpha")',
        "Again, with another program.",
        "%%writefile beta.py",
        "!torchrun --standalone --nproc-per-node=2 beta.py --size {SIZE} --first {FIRST}",
        'failure("beta", expects="too large")',
    ]
    workshop = course.notebook("workshop")
    tagged = [cell for cell in workshop.cells if "parameters" in cell.metadata.get("tags", [])]
    assert [cell.source for cell in tagged] == [dials]
    assert workshop.metadata.course.quick == {"STEPS": 1}
    for name in ("workshop", "solutions/workshop"):
        [tools] = [text for text in course.code(name) if text.startswith("%%writefile tools.py")]
        assert ("return 0" in tools) == (name == "workshop")


def test_behind_an_open_exercise_the_workshop_has_the_finished_program_and_a_way_to_it(course):
    [solved] = [text for text in course.code("solutions/workshop") if "tools.py" in text]
    code = course.code("workshop")
    place = next(n for n, text in enumerate(code) if text.startswith("%%writefile tools.py"))
    assert code[place + 1] == solved.replace("tools.py", "finished_tools.py", 1)
    assert code[place + 2].endswith("\n# !cp finished_tools.py tools.py")
    for name in ("01_first", "solutions/01_first", "solutions/workshop"):
        assert "finished_" not in "".join(course.code(name)), name


LIVE = "    # BEGIN LIVE\n    total = 0\n    # STUB total = 1\n    # END LIVE\n"


def test_a_lesson_shrinks_only_the_parameters_that_it_brings_to_the_workshop(course: Small):
    quick = "    gpu_minutes: 0\n    quick:\n      STEPS: 50\n      SIZE: 3\n"
    course.replace(SECOND, "    gpu_minutes: 0\n", quick)
    assert course.build() == 0
    assert course.notebook("workshop").metadata.course.quick == {"STEPS": 1, "SIZE": 3}


def test_a_live_region_is_an_exercise_in_the_workshop_alone(course: Small):
    course.replace(PROGRAM, "    total = 0\n", LIVE)
    assert course.build() == 0
    stub = "    # ▼▼▼ your code here (1 line)\n    total = 1\n    for"
    whole = "    # region loop\n    total = 0\n    for"
    lessons = ["01_first", "02_second", "solutions/01_first", "solutions/02_second"]
    for name in [*lessons, "workshop", "solutions/workshop"]:
        [text] = [text for text in course.code(name) if text.startswith("%%writefile alpha")]
        assert (stub if name == "workshop" else whole) in text, name
    notebooks = [path for path in course.files() if path.endswith(".ipynb")]
    assert "LIVE" not in "".join(course[path] for path in notebooks)
    assert "total = 0\nfor" in course[DECK]


def test_a_live_program_has_its_120_lines_when_it_is_whole(course: Small):
    room = 120 - length(ALPHA, "alpha.py")
    longer = ALPHA.replace("    print(total)\n", "    print(total)\n" * (1 + room))
    course[PROGRAM] = longer.replace("    total = 0\n", LIVE)
    assert course.build() == 0
    [text] = [text for text in course.code("workshop") if text.startswith("%%writefile alpha")]
    assert length(text.partition("\n")[2], "alpha.py") == 121  # with a line of stub


def test_a_cell_for_the_class_stands_in_the_workshop_alone(course: Small):
    cell = '```python tags=["class"]\n1 + 1\n```'
    course.replace(FIRST, "```python\n# BEGIN", f"{cell}\n\n```python\n# BEGIN")
    assert course.build() == 0
    for folder in ("", "solutions/"):
        assert "1 + 1" not in course.code(f"{folder}01_first")
        assert "1 + 1" in course.code(f"{folder}workshop")


def test_a_lesson_cannot_rest_on_a_program_that_only_the_class_writes(course: Small, capsys):
    course.replace(FIRST, '["workshop"]\n%%writefile alpha', '["class"]\n%%writefile alpha')
    refused(course, capsys, "cell 8: it needs alpha.py, which no cell before writes")


def test_a_cell_can_wait_in_the_workshop_until_another_lesson_is_done(course: Small):
    for start in ("%%writefile alpha", "!torchrun", "alpha ="):
        course.replace(FIRST, f'["workshop"]\n{start}', f'["workshop", "after-02"]\n{start}')
    assert course.build() == 0
    starts = ["%%writefile b", "!torchrun", 'failure("b', "%%writefile a", "!torchrun", "alpha ="]
    assert all(map(str.startswith, course.code("workshop")[-6:], starts))
    lesson = course.code()
    assert lesson.index('alpha = result("alpha")') < len(lesson) - 1  # there it stays in place


def test_in_one_language_the_class_has_the_same_code_and_outputs(course: Small):
    course.run("solutions/workshop")
    before = course.files()
    assert course.build("--workshop", "zh") == 0
    assert {path: text for path, text in course.files().items() if path in before} == before
    for name in ("workshop", "solutions/workshop"):
        book = course.notebook(name)
        own = nbformat.read(course.root / "build/workshop-zh" / f"{name}.ipynb", as_version=4)
        assert code(own) == code(book)
        words = [cell.source for cell in own.cells if cell.cell_type == "markdown"]
        assert words == ["換一支程式再來一次。"]
        assert own.metadata.course.generated_from == book.metadata.course.generated_from


@pytest.mark.parametrize("language", ["fr", ""])
def test_a_language_that_the_course_has_not_is_refused(course: Small, capsys, language: str):
    remedy = f"LANGUAGE={language}: the class notebook is in en or zh: `make workshop LANGUAGE=zh`."
    refused(course, capsys, remedy, "--workshop", language)


def test_without_tagged_cells_there_is_no_workshop(course: Small):
    for path in (FIRST, SECOND):
        course[path] = course[path].replace(', "workshop"', "").replace('"workshop"', "")
    assert course.build() == 1  # the old one has lost its source
    for folder in ("notebooks", "notebooks/solutions"):
        (course.root / folder / "workshop.ipynb").unlink()
    assert course.build() == 0
    assert not list(course.root.rglob("workshop.ipynb"))
